#include "plugins/host-device/restore.h"

#include <doctest/doctest.h>

using host_device::recognise;
using host_device::State;
using netlink::Link;
using netlink::Mac;

namespace {

const Mac kMac = Mac::parse("52:54:00:00:00:01").value();
const Mac kOther = Mac::parse("02:00:00:00:00:99").value();
constexpr int kHost = 3;  // how the pod's namespace numbers the node's

// As ADD wrote it down: on the node, index 7.
State hardware() {
  State out{.owner = {.key = {"n", "c", "eth0"}}};
  out.device = {.name = "ens5", .index = 7, .kind = "", .mac = kMac};
  out.device.permanent_mac = kMac;
  out.device.hardware = "pci/0000:03:00.1";
  return out;
}

State veth() {
  State out = hardware();
  out.device = {.name = "dev0", .index = 7, .kind = "veth", .mac = kMac};
  out.device.other_index = 8;
  out.device.other_on_host = true;
  return out;
}

Link nic(int index, const std::string& name) {
  Link out{.index = index, .name = name};
  out.mac = kOther;
  out.permanent_mac = kMac;
  out.device = "pci/0000:03:00.1";
  return out;
}

Link veth_link(int index, const std::string& name) {
  Link out{.index = index, .name = name, .kind = "veth"};
  out.mac = kOther;
  out.peer_index = 8;
  out.peer_nsid = kHost;
  return out;
}

int index_of(const std::optional<Link>& link) { return link ? link->index : 0; }

}  // namespace

TEST_CASE(
    "hardware is recognised by its permanent MAC address, whatever its name, index and MAC "
    "address") {
  CHECK(index_of(recognise({nic(40, "mine")}, hardware(), kHost)) == 40);
  CHECK(index_of(recognise({nic(40, "dev40")}, hardware(), std::nullopt)) == 40);
  Link impostor = nic(7, "eth0");
  impostor.permanent_mac.reset();
  impostor.mac = kMac;
  CHECK_FALSE(recognise({impostor}, hardware(), kHost));
  impostor.permanent_mac = kMac;
  impostor.kind = "ipvlan";  // has the permanent MAC address of its parent
  CHECK_FALSE(recognise({impostor}, hardware(), kHost));
  CHECK(index_of(recognise({impostor, nic(40, "mine")}, hardware(), kHost)) == 40);
}

TEST_CASE("of two links of one piece of hardware the one with the index is meant, else none") {
  CHECK(index_of(recognise({nic(6, "a"), nic(7, "b")}, hardware(), kHost)) == 7);
  CHECK_FALSE(recognise({nic(6, "a"), nic(5, "b")}, hardware(), kHost));
}

TEST_CASE("a veth is recognised in the pod by index and other end") {
  CHECK(index_of(recognise({veth_link(7, "mine")}, veth(), kHost)) == 7);
  CHECK_FALSE(recognise({veth_link(9, "mine")}, veth(), kHost));
  Link impostor = veth_link(7, "eth0");
  impostor.peer_nsid.reset();  // the other end is in the pod
  CHECK_FALSE(recognise({impostor}, veth(), kHost));
  impostor.peer_nsid = kHost + 1;
  CHECK_FALSE(recognise({impostor}, veth(), kHost));
  State moved = veth();
  moved.pod_index = 9;
  CHECK(index_of(recognise({veth_link(9, "mine")}, moved, kHost)) == 9);
}

TEST_CASE("name and MAC address of a link in the pod prove nothing") {
  Link link = veth_link(9, "eth0");
  link.mac = kMac;
  CHECK_FALSE(recognise({link}, veth(), kHost));
  State moved = veth();
  moved.pod_index = 10;
  link.index = 7;  // of the device on the node, and of a link that the pod had before
  CHECK_FALSE(recognise({link}, moved, kHost));
}

TEST_CASE("a macvlan that has the permanent MAC address of its parent is recognised as a macvlan") {
  State state = veth();
  state.device.kind = "macvlan";
  state.device.permanent_mac = kMac;
  CHECK_FALSE(state.device.is_hardware());
  Link link{.index = 7, .name = "mine", .kind = "macvlan"};
  link.permanent_mac = kMac;
  link.parent_index = 8;
  link.parent_nsid = kHost;
  CHECK(index_of(recognise({link}, state, kHost)) == 7);
  link.index = 9;
  CHECK_FALSE(recognise({link}, state, kHost));
}

TEST_CASE("on the node a virtual link has one of its two names") {
  Link link = veth_link(7, "dev0");
  link.peer_nsid.reset();
  CHECK(index_of(recognise({link}, veth(), std::nullopt)) == 7);
  link.name = "eth0";
  CHECK(index_of(recognise({link}, veth(), std::nullopt)) == 7);
  link.name = "foreign";
  CHECK_FALSE(recognise({link}, veth(), std::nullopt));
}

#include "plugins/host-device/state.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/unit/surroundings.h"

using host_device::Device;
using host_device::State;

namespace {

State example() {
  State out{.owner = {{"net1", "c1", "eth0"}, "/run/netns/c1", 4242}, .pod_index = 9};
  Device& device = out.device;
  device.name = "ens5f1";
  device.index = 7;
  device.mac = netlink::Mac::parse("02:00:00:00:00:01").value();
  device.permanent_mac = netlink::Mac::parse("52:54:00:00:00:01");
  device.hardware = "pci/0000:03:00.1";
  device.pci = "0000:03:00.1";
  device.mtu = 9000;
  device.up = true;
  device.promiscuous = true;
  device.alias = "uplink of \"rack 7\"\n";
  netlink::LinkAddress address;
  address.cidr = netlink::Cidr::parse("192.0.2.1/24").value();
  address.broadcast = netlink::Ip::parse("192.0.2.255");
  address.label = "ens5f1:7";
  address.permanent = true;
  device.addresses.push_back(address);
  address = {};
  address.cidr = netlink::Cidr::parse("2001:db8::1/128").value();
  address.peer = netlink::Ip::parse("2001:db8::2");
  address.scope = 200;
  address.flags = 2;
  address.permanent = true;
  device.addresses.push_back(address);
  device.settings = netlink::LinkSettings{.flags = 0x1080,
                                          .group = 3,
                                          .tx_queue_length = 500,
                                          .gso_max_size = 4'000'000'000U,
                                          .gso_max_segments = 2,
                                          .gro_max_size = 3,
                                          .gso_ipv4_max_size = 4,
                                          .gro_ipv4_max_size = 5,
                                          .mode = 1,
                                          .proto_down = true,
                                          .altnames = {"enp193s0f0np0d1v17", "a \"name\""}};
  device.programs = {7, 4'000'000'000U};
  device.stacked = {{.netns = 4'026'531'840, .index = 3}};
  return out;
}

}  // namespace

TEST_CASE("a state file is read as it was written") {
  CHECK(State::from(example().text()) == example());
  State least{.owner = {.key = {"n", "c", "i"}}};
  least.device.name = "dev0";
  least.device.index = 1;
  least.device.kind = "veth";
  least.device.other_index = 2;
  least.device.other_on_host = true;
  CHECK(State::from(least.text()) == least);
}

TEST_CASE("a state file of an older version says nothing of settings and links on the device") {
  State old = example();
  old.device.settings.reset();
  old.device.stacked.reset();
  old.device.programs.clear();
  std::string text = old.text();
  const std::string programs = "\"programs\":[],";
  REQUIRE(text.find(programs) != std::string::npos);
  CHECK(State::from(text.erase(text.find(programs), programs.size())) == old);
}

TEST_CASE("state files of 0.1.0 are read, in which absent addresses are empty") {
  const auto veth = State::from(surroundings::corpus("host_device_state/veth_of_0.1.0"));
  REQUIRE(veth);
  CHECK(veth->device.name == "dev0");
  CHECK(veth->device.kind == "veth");
  CHECK(veth->device.other_index == 2);
  CHECK(veth->pod_index == 9);
  CHECK_FALSE(veth->device.permanent_mac);
  CHECK_FALSE(veth->device.settings);
  CHECK_FALSE(veth->device.stacked);
  const auto hardware = State::from(surroundings::corpus("host_device_state/hardware_of_0.1.0"));
  REQUIRE(hardware);
  CHECK(hardware->device.permanent_mac == netlink::Mac::parse("52:54:00:00:00:01"));
  REQUIRE(hardware->device.addresses.size() == 2);
  CHECK(hardware->device.addresses[0].broadcast == netlink::Ip::parse("192.0.2.255"));
  CHECK_FALSE(hardware->device.addresses[0].peer);
  CHECK_FALSE(hardware->device.addresses[1].broadcast);
  CHECK(hardware->owner == plugins::StateOwner{{"net1", "c1", "eth0"}, "/run/netns/c1", 30304});
}

TEST_CASE("a state file that is cut off anywhere is none") {
  const std::string whole = example().text();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK_FALSE(State::from(whole.substr(0, length)));
  }
}

TEST_CASE("a state file with a value of no sense is refused") {
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = example().text();
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    return State::from(text.replace(at, from.size(), to));
  };
  CHECK(changed("\"mtu\":9000", "\"mtu\":1500"));
  CHECK_THROWS_AS(static_cast<void>(changed("\"mtu\":9000", "\"mtu\":-1")), cni::Error);
  CHECK_THROWS_AS(static_cast<void>(changed("\"name\":\"ens5f1\"", "\"name\":\"../ens5f1\"")),
                  cni::Error);
  CHECK_THROWS_AS(static_cast<void>(changed("\"name\":\"ens5f1\"", "\"name\":\"\"")), cni::Error);
  CHECK_THROWS_AS(static_cast<void>(changed("\"index\":7", "\"index\":0")), cni::Error);
  CHECK_THROWS_AS(static_cast<void>(changed("192.0.2.1/24", "192.0.2.1/33")), cni::Error);
  CHECK_THROWS_AS(static_cast<void>(changed("52:54:00:00:00:01", "52:54")), cni::Error);
  CHECK_THROWS_AS(static_cast<void>(changed("\"up\":true", "\"up\":1")), cni::Error);
}

TEST_CASE("hardware is told from what a pod can make") {
  Device device{.name = "dev0", .index = 1, .kind = "veth"};
  CHECK_FALSE(device.is_hardware());
  device.kind = "";
  CHECK(device.is_hardware());
}

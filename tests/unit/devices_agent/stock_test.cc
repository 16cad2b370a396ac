#include "plugins/devices/agent/stock/stock.h"

#include <doctest/doctest.h>

#include "plugins/devices/agent/handout.h"

using devices::Device;
using devices::DeviceLink;
using devices::Entries;
using devices::Entry;
using devices::Pools;
using devices::Stock;

namespace {

const char* const kConfig = R"({"pools": [
  {"resource": "v.example/nic", "devices": [{"name": ["eth*"]}], "force": ["eth9"]},
  {"resource": "v.example/any", "devices": [{"driver": ["*"]}, {"kind": ["veth"]}]},
  {"resource": "v.example/slot", "slots": {"parent": "eth1", "count": 2},
   "plugins": [{"type": "macvlan"}]}
]})";

Device device(const char* id, const char* name) {
  return {.id = id, .link = DeviceLink{.name = name, .up = true, .carrier = true}};
}

Stock stock(const std::vector<Device>& all, const Entries& entries = {}) {
  return devices::stock_of(Pools::parse(kConfig), all, entries);
}

Entry held(const char* id, const char* resource) {
  return {.id = id, .resource = resource, .holder = devices::Holder{}};
}

}  // namespace

TEST_CASE("a device belongs to the first pool that selects it") {
  Device nic = device("0000:03:00.0", "eth2");
  nic.driver = "ice";
  const auto out = stock({nic, device("netdev:other", "other")});
  CHECK(out.pools[0].contains("0000:03:00.0"));
  CHECK_FALSE(out.pools[1].contains("0000:03:00.0"));
  REQUIRE(out.kept_back.size() == 1);
  CHECK(out.kept_back[0].reason == "no pool selects it");
}

TEST_CASE("a link that the node uses is offered only if its name is forced") {
  Device used = device("netdev:eth8", "eth8"), forced = device("netdev:eth9", "eth9");
  used.kept_back = forced.kept_back = "default route of the node";
  const auto out = stock({used, forced});
  CHECK_FALSE(out.pools[0].contains("netdev:eth8"));
  REQUIRE(out.pools[0].contains("netdev:eth9"));
  CHECK(out.pools[0].at("netdev:eth9").is_forced);
}

TEST_CASE("the parent of slots is not offered, and its state is that of the slots") {
  Device parent = device("netdev:eth1", "eth1");
  parent.numa = 1;
  auto out = stock({parent});
  CHECK(out.pools[0].empty());
  CHECK(out.kept_back.at(0).reason == "slots of v.example/slot stand on it");
  CHECK(out.pools[2].at("eth1:macvlan:1").offer == devices::Offer{"eth1:macvlan:1", true, 1});
  parent.link->carrier = false;
  CHECK_FALSE(stock({parent}).pools[2].at("eth1:macvlan:2").offer.healthy);
  CHECK_FALSE(stock({}).pools[2].at("eth1:macvlan:2").is_present);
}

TEST_CASE("a device in a pod stays offered and healthy, whatever the node sees of it") {
  Device away{.id = "0000:03:00.0", .driver = "ice"};
  const Entries entries = {{"0000:03:00.0", held("0000:03:00.0", "v.example/nic")},
                           {"netdev:eth7", held("netdev:eth7", "v.example/nic")}};
  const auto out = stock({away}, entries);
  CHECK(out.pools[0].at("0000:03:00.0").offer.healthy);
  CHECK(out.pools[0].at("netdev:eth7").offer.healthy);
  CHECK(out.pools[1].empty());
  // Nobody knows where it is.
  CHECK_FALSE(stock({away}).pools[1].at("0000:03:00.0").is_present);
}

TEST_CASE("a device that a pod has of a pool that was renamed is shown, and no other pod's") {
  const Entries entries = {{"netdev:eth2", held("netdev:eth2", "v.example/old")},
                           {"netdev:eth7", held("netdev:eth7", "v.example/old")},
                           {"eth1:macvlan:1", held("eth1:macvlan:1", "v.example/old")}};
  const auto out = stock({device("netdev:eth1", "eth1"), device("netdev:eth2", "eth2")}, entries);
  CHECK_FALSE(out.pools[0].at("netdev:eth2").offer.healthy);
  CHECK_FALSE(out.pools[2].at("eth1:macvlan:1").offer.healthy);
  CHECK(out.pools[2].at("eth1:macvlan:2").offer.healthy);
  REQUIRE(out.kept_back.size() == 2);
  CHECK(out.kept_back[1].device.id == "netdev:eth7");
  CHECK(out.kept_back[1].reason == "a pod has it as v.example/old, which is no pool");
}

TEST_CASE("hardware is attached by its address, a link and what is forced by its name") {
  const Pools pools = Pools::parse(kConfig);
  Device nic = device("0000:03:00.0", "eth2");
  nic.bus = devices::Bus::kPci;
  devices::Item item{.offer = {nic.id, true}, .device = nic, .is_present = true};
  CHECK(plugins_text(pools.pools[0], item, "") ==
        R"([{"type":"host-device","pciBusID":"0000:03:00.0"}])");
  item.is_forced = true;
  const std::string by_name = R"([{"type":"host-device","device":"eth2"}])";
  CHECK(plugins_text(pools.pools[0], item, "") == by_name);
  // In a pod: as the entry has it.
  item.device.reset();
  CHECK(plugins_text(pools.pools[0], item, by_name) == by_name);
  CHECK_THROWS(devices::plugins_text(pools.pools[0], item, "[]"));
}

TEST_CASE("another plugin than host-device gets PCI and auxiliary devices alone, by deviceID") {
  const Pools pools = Pools::parse(R"({"pools": [{"resource": "v.example/vf",
    "devices": [{"name": ["eth*"]}], "force": ["eth2"], "plugins": [{"type": "sriov"}]}]})");
  Device function = device("0000:03:02.0", "eth1"), link = device("netdev:eth2", "eth2");
  function.bus = devices::Bus::kPci;
  const Stock out = devices::stock_of(pools, {function, link}, {});
  const devices::Item& item = out.pools[0].at("0000:03:02.0");
  CHECK(plugins_text(pools.pools[0], item, "") ==
        R"([{"type":"sriov","deviceID":"0000:03:02.0"}])");
  CHECK_FALSE(out.pools[0].contains("netdev:eth2"));
  CHECK(out.kept_back.at(0).reason == "plugin sriov takes PCI and auxiliary devices alone");
  // In a pod: its ID is enough.
  const devices::Item away{.offer = {"mlx5_core.sf.4", true}};
  CHECK(plugins_text(pools.pools[0], away, "") ==
        R"([{"type":"sriov","deviceID":"mlx5_core.sf.4"}])");
  // Promised while the pool had host-device: not handed out again.
  const Stock later =
      devices::stock_of(pools, {link}, {{link.id, held("netdev:eth2", "v.example/vf")}});
  CHECK_FALSE(later.pools[0].at("netdev:eth2").offer.healthy);
  CHECK_THROWS(plugins_text(pools.pools[0], later.pools[0].at("netdev:eth2"), ""));
}

TEST_CASE("the variable has the name that the SR-IOV network device plugin gives it") {
  CHECK(devices::variable_of("vendor.example/nic-a") == "PCIDEVICE_VENDOR_EXAMPLE_NIC_A");
  const Pools pools = Pools::parse(R"({"pools": [{"resource": "v.example/nic", "devices":
    [{"name": ["eth*"]}], "nodes": ["/dev/vhost-net"]}]})");
  const devices::Item one{.offer = {"a", true}}, two{.offer = {"b", true}};
  const auto out = handout_of(pools.pools[0], {&one, &two}, devices::Sysfs("/nonexistent"));
  CHECK(out.environment.at("PCIDEVICE_V_EXAMPLE_NIC") == "a,b");
  CHECK(out.nodes == std::vector<std::string>{"/dev/vhost-net"});
}

TEST_CASE("preferred devices are of as few NUMA nodes as possible") {
  const std::map<std::string, std::optional<int>> numa = {
      {"a0", 0}, {"b0", 0}, {"a1", 1}, {"b1", 1}, {"c1", 1}, {"x", std::nullopt}};
  const std::vector<std::string> all = {"x", "c1", "b1", "a1", "b0", "a0", "unknown"};
  using Ids = std::vector<std::string>;
  CHECK(devices::preferred_of({all, {}, 2}, numa) == Ids{"a0", "b0"});
  CHECK(devices::preferred_of({all, {}, 3}, numa) == Ids{"a1", "b1", "c1"});
  CHECK(devices::preferred_of({all, {"b1"}, 2}, numa) == Ids{"b1", "a1"});
  CHECK(devices::preferred_of({all, {}, 4}, numa) == Ids{"a1", "b1", "c1", "a0"});
  CHECK(devices::preferred_of({all, {}, 7}, numa) ==
        Ids{"a1", "b1", "c1", "a0", "b0", "x", "unknown"});
  CHECK(devices::preferred_of({all, {"a0", "b0"}, 1}, numa) == Ids{"a0"});
  CHECK(devices::preferred_of({{}, {}, 3}, numa).empty());
}

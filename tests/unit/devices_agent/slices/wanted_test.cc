#include "plugins/devices/agent/dra/slices/wanted.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using devices::Device;
using devices::DeviceLink;
using devices::Entries;
using devices::Entry;
using devices::Pools;
using devices::dra::Features;
using devices::dra::Json;
using devices::dra::LastKnown;
using devices::dra::wanted_slices;

namespace {

const std::string kDriver = "devices.patchbay";
const char* const kNics = R"({"dra": {"node": "n1"}, "pools": [
  {"resource": "v.example/nic", "devices": [{"name": ["eth*"]}, {"parent": ["*"]}, {"driver": ["vfio-pci"]}],
   "force": ["eth0"]},
  {"resource": "v.example/old", "devices": [{"name": ["old*"]}], "devicePlugin": true}
]})";
const char* const kSlots = R"({"dra": {"node": "n1"}, "pools": [
  {"resource": "v.example/slot", "slots": {"parent": "up0", "count": 3},
   "plugins": [{"type": "macvlan"}]}
]})";
const char* const kShared = R"({"dra": {"node": "n1"}, "pools": [
  {"resource": "v.example/slot", "slots": {"parent": "up0", "count": 20, "bandwidth": "10G"},
   "plugins": [{"type": "macvlan"}]}
]})";

Device nic(const std::string& id, const std::string& name) {
  return {.id = id, .link = DeviceLink{.name = name, .mtu = 1500, .up = true, .carrier = true}};
}

Device function(const std::string& id, const std::string& name) {
  Device out = nic(id, name);
  out.bus = devices::Bus::kPci;
  out.pci = id;
  return out;
}

std::vector<Json> wanted(const char* config, const std::vector<Device>& all,
                         const Entries& entries = {}, const LastKnown& known = {},
                         Features features = {}) {
  const Pools pools = Pools::parse(config);
  const auto stock = devices::stock_of(pools, all, entries);
  return wanted_slices({pools, stock, kDriver, features}, known);
}

std::string text(const Json& device, const char* attribute) {
  const Json& all = device.at("attributes");
  return all.contains(attribute) ? all[attribute].at("string").get<std::string>() : "";
}

Entry held(const std::string& id) {
  return {.id = id, .resource = "v.example/nic", .holder = devices::Holder{}};
}

std::vector<std::string> names_of(const Json& slice) {
  std::vector<std::string> out;
  for (const Json& one : slice.at("devices")) out.push_back(one.at("name"));
  return out;
}

// A physical function with two virtual ones, all of one pool.
std::vector<Device> functions() {
  Device whole = function("0000:03:00.0", "eth0");
  whole.virtual_functions = {"0000:03:00.1", "0000:03:00.2"};
  whole.kept_back = "has virtual functions";
  Device one = function("0000:03:00.1", "eth1"), other = function("0000:03:00.2", "eth2");
  one.physical_function = other.physical_function = whole.id;
  return {whole, one, other};
}

}  // namespace

TEST_CASE("a NIC is published with the attributes that dranet has") {
  Device device = function("0000:03:00.0", "eth1");
  device.driver = "ice";
  device.numa = 1;
  device.pcie_root = "pci0000:00";
  device.link->mac = netlink::Mac::parse("02:00:00:00:00:01");
  device.link->ipv4 = "10.0.0.1/24";
  const auto slices = wanted(kNics, {device});
  REQUIRE(slices.size() == 1);
  const Json& out = slices[0].at("devices").at(0);
  CHECK(out.at("name") == "0000-03-00-0");
  CHECK(text(out, "resource") == "v.example/nic");
  CHECK(text(out, "ifName") == "eth1");
  CHECK(text(out, "mac") == "02:00:00:00:00:01");
  CHECK(text(out, "pciAddress") == "0000:03:00.0");
  CHECK(text(out, "resource.kubernetes.io/pciBusID") == "0000:03:00.0");
  CHECK(text(out, "resource.kubernetes.io/pcieRoot") == "pci0000:00");
  CHECK(text(out, "ipv4") == "10.0.0.1/24");
  CHECK(text(out, "state") == "up");
  CHECK(out["attributes"]["numaNode"] == Json{{"int", 1}});
  CHECK(out["attributes"]["mtu"] == Json{{"int", 1500}});
  CHECK(out["attributes"]["virtual"] == Json{{"bool", false}});
  CHECK(out["attributes"]["isSriovVf"] == Json{{"bool", false}});
  CHECK_FALSE(out.contains("taints"));
  CHECK_FALSE(out.contains("consumesCounters"));
}

TEST_CASE("pools of the device plugin are not published") {
  CHECK(wanted(kNics, {nic("netdev:old1", "old1")}).empty());
  CHECK(wanted(kNics, {}).empty());
}

TEST_CASE("text that the API refuses is left out, and nothing else of the device") {
  Device device = nic("netdev:eth1", "eth\xff");
  device.driver = std::string(65, 'd');
  device.pcie_root = "pci\n";
  const auto slices = wanted(kNics, {device});
  const Json& out = slices.at(0).at("devices").at(0);
  CHECK(text(out, "ifName").empty());
  CHECK(text(out, "driver").empty());
  CHECK(text(out, "resource.kubernetes.io/pcieRoot").empty());
  CHECK(text(out, "resource") == "v.example/nic");
  device.driver.pop_back();
  CHECK(text(wanted(kNics, {device})[0]["devices"][0], "driver").size() == 64);
}

TEST_CASE("a device in a pod keeps the attributes that were known last") {
  const auto before = wanted(kNics, {nic("netdev:eth1", "eth1"), function("0000:03:00.0", "eth2")});
  const LastKnown known = devices::dra::attributes_in(before);
  Device away = function("0000:03:00.0", "");
  away.link.reset();
  const Entries entries = {{"netdev:eth1", held("netdev:eth1")},
                           {"0000:03:00.0", held("0000:03:00.0")}};
  CHECK(wanted(kNics, {away}, entries, known) == before);
  SUBCASE("without them it is offered with what is seen") {
    const auto out = wanted(kNics, {away}, entries);
    CHECK(text(out[0]["devices"][0], "pciAddress") == "0000:03:00.0");
    CHECK(text(out[0]["devices"][0], "ifName").empty());
    CHECK(names_of(out[0]) == names_of(before[0]));
  }
  SUBCASE("with a driver of user space it has no link, whatever was known") {
    away.driver = "vfio-pci";
    const auto out = wanted(kNics, {away}, {}, known);
    CHECK(text(out[0]["devices"][0], "ifName").empty());
  }
}

TEST_CASE("a link without carrier is tainted and comes last") {
  Device cut = nic("netdev:eth1", "eth1");
  cut.link->carrier = false;
  const auto slices = wanted(kNics, {cut, nic("netdev:eth2", "eth2")});
  REQUIRE(slices.size() == 2);
  CHECK(names_of(slices[0]) == std::vector<std::string>{"netdev-eth2"});
  const Json& out = slices[1]["devices"][0];
  CHECK(out.at("taints") ==
        Json::array({{{"key", "devices.patchbay/no-carrier"}, {"effect", "NoSchedule"}}}));
  CHECK(text(out, "state") == "down");
  CHECK(wanted(kNics, {cut}, {}, {}, {.taints = false}).empty());
}

TEST_CASE("a link that is down has no taint, because the plugin sets it up") {
  Device down = nic("netdev:eth1", "eth1");
  down.link->up = down.link->carrier = false;
  CHECK_FALSE(wanted(kNics, {down})[0]["devices"][0].contains("taints"));
}

TEST_CASE("hardware that vanished is tainted as long as a pod has it") {
  const auto slices = wanted(kNics, {}, {{"0000:03:00.0", held("0000:03:00.0")}});
  REQUIRE(slices.size() == 1);
  CHECK(slices[0]["devices"][0]["taints"][0]["key"] == "devices.patchbay/unavailable");
  CHECK(wanted(kNics, {}).empty());
}

TEST_CASE("each slot is a device, tainted without its parent") {
  const auto up = wanted(kSlots, {nic("netdev:up0", "up0")});
  REQUIRE(up.size() == 1);
  CHECK(names_of(up[0]) ==
        std::vector<std::string>{"up0-macvlan-1", "up0-macvlan-2", "up0-macvlan-3"});
  CHECK(text(up[0]["devices"][1], "parent") == "up0");
  CHECK(text(up[0]["devices"][1], "type") == "macvlan");
  CHECK(up[0]["devices"][1]["attributes"]["slot"] == Json{{"int", 2}});
  CHECK_FALSE(up[0]["devices"][1].contains("taints"));
  Device cut = nic("netdev:up0", "up0");
  cut.link->carrier = false;
  CHECK(wanted(kSlots, {cut})[0]["devices"][2]["taints"][0]["key"] ==
        "devices.patchbay/no-carrier");
  CHECK(wanted(kSlots, {})[0]["devices"][2]["taints"][0]["key"] == "devices.patchbay/unavailable");
}

TEST_CASE("slots with a bandwidth are one device that many claims share") {
  const auto slices = wanted(kShared, {nic("netdev:up0", "up0")});
  REQUIRE(slices.size() == 1);
  REQUIRE(slices[0]["devices"].size() == 1);
  const Json& out = slices[0]["devices"][0];
  CHECK(out.at("name") == "up0-macvlan");
  CHECK(out.at("allowMultipleAllocations") == true);
  CHECK(out["capacity"]["slots"] ==
        Json{{"value", "20"},
             {"requestPolicy", {{"default", "1"}, {"validRange", {{"min", "1"}, {"max", "1"}}}}}});
  CHECK(out["capacity"]["bandwidth"] ==
        Json{{"value", "10G"},
             {"requestPolicy", {{"default", "500M"}, {"validRange", {{"min", "1M"}}}}}});
  CHECK(wanted(kShared, {nic("netdev:up0", "up0")}, {}, {}, {.shares = false}).empty());
}

TEST_CASE("the share of a request that names no bandwidth lets all slots be given") {
  using devices::dra::default_bandwidth;
  CHECK(default_bandwidth(10'000'000'000, 20) == 500'000'000);
  CHECK(default_bandwidth(10, 3) * 3 <= 10);
  CHECK(default_bandwidth(1, 3) == 1);
}

TEST_CASE("a physical function and its virtual functions consume from one set of counters") {
  const auto slices = wanted(kNics, functions());
  REQUIRE(slices.size() == 2);
  CHECK(names_of(slices[0]) ==
        std::vector<std::string>{"0000-03-00-1", "0000-03-00-2", "0000-03-00-0"});
  const auto used = [&](std::size_t at) {
    const Json& one = slices[0]["devices"][at]["consumesCounters"];
    CHECK(one[0]["counterSet"] == "0000-03-00-0");
    return one[0]["counters"]["functions"]["value"];
  };
  CHECK(used(0) == "1");
  CHECK(used(1) == "1");
  CHECK(used(2) == "2");
  const Json set = {{"name", "0000-03-00-0"}, {"counters", {{"functions", {{"value", "2"}}}}}};
  CHECK(slices[1] == Json{{"sharedCounters", Json::array({set})}});
}

TEST_CASE("without counters the whole is not offered beside its parts") {
  const auto slices = wanted(kNics, functions(), {}, {}, {.counters = false});
  REQUIRE(slices.size() == 1);
  CHECK(names_of(slices[0]) == std::vector<std::string>{"0000-03-00-1", "0000-03-00-2"});
  CHECK_FALSE(slices[0]["devices"][0].contains("consumesCounters"));
}

TEST_CASE("virtual functions alone need no counters") {
  auto all = functions();
  all.front().link->name = "other";  // which nothing forces
  const auto slices = wanted(kNics, all);
  REQUIRE(slices.size() == 1);
  CHECK(slices[0]["devices"].size() == 2);
  CHECK_FALSE(slices[0]["devices"][0].contains("consumesCounters"));
}

TEST_CASE("slices have at most 128 devices, or 64 with taints") {
  std::vector<Device> all;
  for (int i = 0; i < 500; ++i) {
    all.push_back(nic("netdev:eth" + std::to_string(i), "eth" + std::to_string(i)));
  }
  auto slices = wanted(kNics, all);
  REQUIRE(slices.size() == 4);
  CHECK(slices[0]["devices"].size() == 128);
  CHECK(slices[3]["devices"].size() == 116);
  for (Device& one : all) one.link->carrier = false;
  slices = wanted(kNics, all);
  REQUIRE(slices.size() == 8);
  CHECK(slices[0]["devices"].size() == 64);
}

TEST_CASE("no device has more attributes and capacities than the API takes") {
  Device full = function("0000:03:00.0", "eth1");
  full.driver = "ice";
  full.vendor = full.device = "8086";
  full.numa = 0;
  full.pcie_root = "pci0000:00";
  full.bus = devices::Bus::kAuxiliary;
  full.link->mac = netlink::Mac::parse("02:00:00:00:00:01");
  full.link->ipv4 = full.link->ipv6 = "x";
  full.link->parent = "p";
  const auto slices = wanted(kNics, {full});
  CHECK(slices[0]["devices"][0]["attributes"].size() <= 32);
  CHECK(slices[0]["devices"][0]["attributes"].size() >= 19);
}

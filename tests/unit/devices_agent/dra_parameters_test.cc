#include <doctest/doctest.h>

#include <string>

#include "libcni/common/error.h"
#include "plugins/devices/agent/dra/parameters.h"

using devices::Pool;
using devices::Pools;
using devices::dra::Config;
using devices::dra::Json;
using devices::dra::merged;
using devices::dra::with_bandwidth;

namespace {

Pool pool() {
  return Pools::parse(R"({"dra": {"node": "n1"}, "pools": [{"resource": "vendor.example/slot",
      "slots": {"parent": "eth1", "count": 2},
      "plugins": [{"type": "macvlan", "mode": "bridge", "mtu": 1500,
                   "ipam": {"type": "host-local", "subnet": "10.7.0.0/24"}},
                  {"type": "tuning", "mtu": 1400}]}]})")
      .pools.front();
}

Config config(const Json& parameters, bool is_from_class = false) {
  return {.is_from_class = is_from_class, .requests = {}, .parameters = parameters, .at = "p"};
}

Config of_plugin(const Json& plugin, bool is_from_class = false) {
  return config({{"plugins", Json::array({plugin})}}, is_from_class);
}

std::string refusal(const Config& one) {
  try {
    static_cast<void>(merged(pool(), {one}, "nic"));
  } catch (const cni::Error& e) {
    return e.what();
  }
  return "none";
}

Json plugins_with(const Config& one) { return *merged(pool(), {one}, "nic").plugins; }

}  // namespace

TEST_CASE("keys replace those of the pool's plugin at the top level") {
  const Json out =
      plugins_with(of_plugin({{"type", "macvlan"}, {"MODE", "vepa"}, {"mtu", nullptr}}));
  CHECK(out[0] == Json{{"type", "macvlan"},
                       {"MODE", "vepa"},
                       {"ipam", {{"type", "host-local"}, {"subnet", "10.7.0.0/24"}}}});
  CHECK(out[1] == Json{{"type", "tuning"}, {"mtu", 1400}});
}

TEST_CASE("what comes later wins, and other requests' parameters are passed over") {
  Config first = of_plugin({{"type", "tuning"}, {"mtu", 1300}}, true);
  Config second = of_plugin({{"type", "tuning"}, {"mtu", 1200}});
  Config other = of_plugin({{"type", "tuning"}, {"mtu", 1100}});
  other.requests = {"other"};
  const Pool out = merged(pool(), {first, second, other}, "nic");
  CHECK((*out.plugins)[1]["mtu"] == 1200);
}

TEST_CASE("a chained plugin that the pool does not have is appended, and no other") {
  const Json out = plugins_with(of_plugin({{"type", "sbr"}, {"table", 100}}));
  REQUIRE(out.size() == 3);
  CHECK(out[2] == Json{{"type", "sbr"}, {"table", 100}});
  CHECK(refusal(of_plugin({{"type", "bridge"}})) ==
        "p.plugins[0].type: expected a plugin of the pool, or tuning, sbr, bandwidth or vrf: "
        "\"bridge\"");
}

TEST_CASE("the name of the interface is the claim's") {
  CHECK(merged(pool(), {config({{"ifname", "storage"}})}, "nic").ifname == "storage");
  for (const char* const taken :
       {"a/b", "lo", "eth0", "all", "default", "a\x1b[2J", "sixteen-letters-"}) {
    CHECK(refusal(config({{"ifname", taken}})).find("p.ifname: expected a name of a link") == 0);
  }
}

TEST_CASE("unknown keys and keys that name the device are refused with their path") {
  CHECK(refusal(config({{"plugin", 1}})) == "p.plugin: unknown key, expected plugins or ifname");
  CHECK(refusal(config(Json::array())).find("p: expected an object") == 0);
  CHECK(refusal(of_plugin({{"mtu", 1}})).find("p.plugins[0]: expected a type") == 0);
  for (const char* const key : {"master", "Master", "device", "deviceID", "pciBusID", "vlanId"}) {
    CHECK(
        refusal(of_plugin({{"type", "macvlan"}, {key, "x"}}, true)).find("expected no such key") !=
        std::string::npos);
  }
  CHECK(refusal(of_plugin({{"type", "macvlan"}, {"runtimeConfig", {{"deviceID", "x"}}}}, true))
            .find("p.plugins[0].runtimeConfig.deviceID") == 0);
  for (const char* const key : {"name", "cniVersion", "prevResult", "capabilities"}) {
    CHECK(refusal(of_plugin({{"type", "tuning"}, {key, "x"}}, true)) != "none");
  }
}

TEST_CASE("a claim names no program and no path of the node, a class may") {
  const Json dhcp = {{"type", "macvlan"}, {"ipam", {{"type", "dhcp"}}}};
  const Json file = {
      {"type", "macvlan"},
      {"ipam", {{"type", "host-local"}, {"dataDir", "/etc"}, {"subnet", "10.8.0.0/24"}}}};
  const Json route = {{"type", "macvlan"},
                      {"ipam", {{"type", "host-local"}, {"subnet", "10.8.0.0/24"}}}};
  const Json bridge = {{"type", "macvlan"}, {"bridge", "br0"}};
  CHECK(refusal(of_plugin(dhcp))
            .find("p.plugins[0].ipam.type: expected the type that the pool has") == 0);
  CHECK(refusal(of_plugin(file)).find("p.plugins[0].ipam.dataDir") == 0);
  CHECK(refusal(of_plugin({{"type", "tuning"}, {"x", {{"y", "/etc/passwd"}}}}))
            .find("expected no path") != std::string::npos);
  CHECK(refusal(of_plugin(bridge)) != "none");
  for (const char* const key : {"resolvConf", "podCidrFile", "subnetFile", "daemonSocketPath"}) {
    CHECK(refusal(of_plugin({{"type", "macvlan"}, {"ipam", {{"type", "host-local"}, {key, "a"}}}}))
              .find("only a DeviceClass may set it") != std::string::npos);
  }
  CHECK(refusal(of_plugin(route)) == "none");
  CHECK(refusal(of_plugin(dhcp, true)) == "none");
  CHECK(refusal(of_plugin(file, true)) == "none");
  Json deep = "x";
  for (int i = 0; i < 30; ++i) deep = Json::array({deep});
  CHECK(refusal(of_plugin({{"type", "tuning"}, {"x", deep}})).find("16 levels") !=
        std::string::npos);
}

TEST_CASE("a claim lets no traffic past the bandwidth that it consumes, a class may") {
  Pool shared = pool();
  shared.slots.front().bandwidth = 1'000'000;
  const auto is_refused = [](const Pool& of, const Config& one) {
    try {
      static_cast<void>(merged(of, {one}, "nic"));
      return false;
    } catch (const cni::Error& e) {
      return std::string(e.what()).find("limits all traffic") != std::string::npos;
    }
  };
  for (const Json& key :
       {Json{{"unshapedSubnets", {"0.0.0.0/0"}}}, Json{{"ShapedSubnets", {"::/0"}}},
        Json{{"burstTime", 10'000}}, Json{{"runtimeConfig", {{"bandwidth", Json::object()}}}}}) {
    Json plugin = {{"type", "bandwidth"}, {"egressRate", 1000}};
    plugin.update(key);
    CHECK(is_refused(shared, of_plugin(plugin)));
    CHECK_FALSE(is_refused(shared, of_plugin(plugin, true)));
    CHECK_FALSE(is_refused(pool(), of_plugin(plugin)));
  }
  CHECK_FALSE(is_refused(shared, of_plugin({{"type", "bandwidth"}, {"egressRate", 1000}})));
}

TEST_CASE("the consumed bandwidth becomes a limit at the end of the list") {
  using Ordered = nlohmann::ordered_json;
  const Ordered macvlan = {{{"type", "macvlan"}}};
  CHECK(with_bandwidth(macvlan, 200'000'000)[1] == Ordered{{"type", "bandwidth"},
                                                           {"egressRate", 200'000'000},
                                                           {"burstTime", 10},
                                                           {"egressMode", "pod"}});
  const Ordered bridge = {{{"type", "bridge"}}};
  CHECK(with_bandwidth(bridge, 1'000'000)[1] == Ordered{{"type", "bandwidth"},
                                                        {"egressRate", 1'000'000},
                                                        {"ingressRate", 1'000'000},
                                                        {"burstTime", 10}});
}

TEST_CASE("a limit of the pool that is stricter stays, a laxer one does not") {
  using Ordered = nlohmann::ordered_json;
  const Ordered strict = {{{"type", "macvlan"}},
                          {{"type", "bandwidth"}, {"EgressRate", 1000}, {"egressBurst", 9000}}};
  const Ordered limited = with_bandwidth(strict, 2000);
  REQUIRE(limited.size() == 2);
  CHECK(limited[1]["egressRate"] == 1000);
  CHECK(limited[1]["egressBurst"] == 9000);
  const Ordered lax = with_bandwidth(strict, 500);
  CHECK(lax[1]["egressRate"] == 500);
  CHECK_FALSE(lax[1].contains("egressBurst"));
  CHECK_FALSE(lax[1].contains("EgressRate"));
}

#include "plugins/devices/agent/pools/pools.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "plugins/devices/agent/pools/attach.h"

using devices::Pools;
using nlohmann::json;

namespace {

json config(const char* pool) { return {{"pools", json::array({json::parse(pool)})}}; }

std::string refusal_of(const json& config) {
  try {
    Pools::parse(config.dump());
  } catch (const cni::Error& e) {
    return e.what();
  }
  return "accepted";
}
std::string refusal_of(const char* pool) { return refusal_of(config(pool)); }

devices::Pool pool_of(const char* pool) { return Pools::parse(config(pool).dump()).pools.at(0); }

}  // namespace

TEST_CASE("a pool of hardware has host-device as its plugin, and tuning for what that cannot set") {
  const auto pool = pool_of(R"({"resource": "vendor.example/nic", "devices": [{"driver": ["ice"]}],
    "attach": {"ipam": {"type": "static"}, "mtu": 9000, "mac": "02:00:00:00:00:01",
               "ifname": "storage"}})");
  CHECK(pool.attach.ifname == "storage");
  CHECK(devices::plugins_for(pool, devices::SelectBy::kPci, "0000:03:00.1").dump() ==
        R"([{"type":"host-device","pciBusID":"0000:03:00.1","ipam":{"type":"static"}},)"
        R"({"type":"tuning","mac":"02:00:00:00:00:01","mtu":9000}])");
  CHECK(devices::plugins_for(pool, devices::SelectBy::kAuxiliary, "mlx5_core.sf.4")[0].dump() ==
        R"({"type":"host-device","runtimeConfig":{"deviceID":"mlx5_core.sf.4"},)"
        R"("ipam":{"type":"static"}})");
}

TEST_CASE("a slot has the plugin of its kind, which sets MTU and MAC address itself") {
  const auto pool = pool_of(R"({"resource": "vendor.example/macvlan",
    "slots": {"kind": "macvlan", "parent": "eth1", "count": 2, "mode": "private"},
    "attach": {"mtu": 1400, "mac": "02:00:00:00:00:01", "promisc": true}})");
  CHECK(pool.slots[0].numbers() == std::vector<unsigned>{1, 2});
  CHECK(pool.slots[0].id(2) == "eth1:macvlan:2");
  CHECK(devices::plugins_for_slot(pool, 2).dump() ==
        R"([{"type":"macvlan","master":"eth1","mode":"private","mac":"02:00:00:00:00:01",)"
        R"("mtu":1400},{"type":"tuning","promisc":true}])");
}

TEST_CASE("slots of kind vlan are numbered by their VLAN IDs") {
  const auto pool = pool_of(R"({"resource": "vendor.example/vlan",
    "slots": {"kind": "vlan", "parent": "eth1", "vlanIds": [10, 20]}})");
  CHECK(pool.slots[0].numbers() == std::vector<unsigned>{10, 20});
  CHECK(devices::plugins_for_slot(pool, 20).dump() ==
        R"([{"type":"vlan","master":"eth1","vlanId":20}])");
}

TEST_CASE("an unknown key is refused with its path and the key that was meant") {
  CHECK(refusal_of(R"({"resource": "vendor.example/nic", "devices": [{"pcii": ["*"]}]})") ==
        "pools[0].devices[0].pcii: unknown key (did you mean pci?)");
  CHECK(refusal_of(json{{"pool", json::array()}}).find("pool") != std::string::npos);
}

TEST_CASE("the name of a resource is that of an extended resource of Kubernetes") {
  for (const char* good : {"vendor.example/nic", "a/b", "x.y-z.example/Nic_1.2"}) {
    CHECK_MESSAGE(devices::is_resource_name(good), good);
  }
  for (const char* bad : {"nic", "kubernetes.io/nic", "x.kubernetes.io/nic", "requests.a/b", "/nic",
                          "Vendor.example/nic", "vendor.example/", "vendor.example/-nic",
                          "vendor..example/nic", "a/b/c", ""}) {
    CHECK_FALSE_MESSAGE(devices::is_resource_name(bad), bad);
  }
}

TEST_CASE("resourcePrefix is the domain of resources without one") {
  json doc = config(R"({"resource": "nic", "devices": [{"name": ["eth1"]}]})");
  CHECK(refusal_of(doc).starts_with("pools[0].resource: expected the name"));
  doc["resourcePrefix"] = "vendor.example";
  CHECK(Pools::parse(doc.dump()).pools[0].resource == "vendor.example/nic");
}

TEST_CASE("keys that contradict each other are refused with the path of one") {
  const auto with = [](const char* rest) {
    return refusal_of((std::string(R"({"resource": "v.example/a", )") + rest + "}").c_str());
  };
  CHECK(with(R"("force": [])").starts_with("pools[0]: expected either devices or slots"));
  CHECK(with(R"("devices": [{}])").starts_with("pools[0].devices[0]: expected an object"));
  CHECK(with(R"("slots": {"kind": "vlan", "parent": "eth1", "count": 2})")
            .starts_with("pools[0].slots.count: slots of kind vlan"));
  CHECK(with(R"("slots": {"kind": "macvlan", "parent": "eth1"})")
            .starts_with("pools[0].slots: expected count"));
  CHECK(with(R"("slots": {"kind": "macvlan", "count": 1})")
            .starts_with("pools[0].slots: expected parent"));
  CHECK(with(R"("slots": {"kind": "macvlan", "parent": "eth1", "count": 1, "mode": "l3"})")
            .starts_with("pools[0].slots.mode: slots of kind macvlan"));
  CHECK(with(R"("slots": {"kind": "ipvlan", "parent": "eth1", "count": 1}, "attach": {"mac":
               "02:00:00:00:00:01"})")
            .starts_with("pools[0].attach.mac: slots of kind ipvlan"));
  CHECK(with(R"("devices": [{"name": ["a"]}], "attach": {"ipam": {}})")
            .starts_with("pools[0].attach.ipam: expected an object whose type"));
  CHECK(with(R"("devices": [{"name": ["a"]}], "nodes": ["/dev/../etc/shadow"])")
            .starts_with("pools[0].nodes[0]: expected a path below /dev/"));
}

TEST_CASE("a slot belongs to one pool") {
  const json one = json::parse(R"({"resource": "v.example/a",
    "slots": {"kind": "macvlan", "parent": "eth1", "count": 2}})");
  json other = one;
  other["resource"] = "v.example/b";
  CHECK(refusal_of(json{{"pools", {one, other}}})
            .starts_with("pools[1].slots: slot eth1:macvlan:1 belongs to v.example/a"));
  other["slots"]["first"] = 3;
  CHECK(refusal_of(json{{"pools", {one, other}}}) == "accepted");
  CHECK(refusal_of(json{{"pools", {one, one}}})
            .starts_with("pools[1].resource: another pool has this resource"));
}

TEST_CASE("the verdict has all complaints, and the first refusal with its code") {
  const auto verdict = devices::judge_pools(
      R"({"pools": [{"resource": "v.example/a", "slot": {}, "rdma": "yes"}]})");
  CHECK(verdict.complaints.size() == 2);
  CHECK(verdict.code == 7);
  CHECK(devices::judge_pools("{").code == 6);
  CHECK(devices::judge_pools(R"({"pools": []})").refusal.empty());
}

TEST_CASE("the schema describes all keys and refuses others") {
  const auto schema = devices::pools_schema();
  CHECK(schema["additionalProperties"] == false);
  const auto& pool = schema["properties"]["pools"]["items"]["properties"];
  for (const char* key : {"resource", "devices", "slots", "force", "attach", "nodes", "cdi"}) {
    CHECK_MESSAGE(pool.contains(key), key);
  }
}

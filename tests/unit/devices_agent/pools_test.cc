#include "plugins/devices/agent/pools/pools.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "libcni/common/error.h"

using devices::Pools;
using devices::SelectBy;
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

template <class... What>
std::string attached(const devices::Pool& pool, const What&... what) {
  return plugins_with(pool, keys_added(pool, what...)).dump();
}

devices::Pool pool_of(const char* pool) { return Pools::parse(config(pool).dump()).pools.at(0); }

}  // namespace

TEST_CASE("a device gets the plugins of its pool, of which the first is told its name") {
  const auto pool = pool_of(R"({"resource": "vendor.example/nic", "devices": [{"driver": ["ice"]}],
    "ifname": "storage",
    "plugins": [{"Type": "host-device", "ipam": {"type": "static"}, "runtimeConfig": {"ips": []}},
                {"type": "tuning", "mtu": 9000}]})");
  CHECK(pool.ifname == "storage");
  CHECK(attached(pool, SelectBy::kPci, "0000:03:00.1") ==
        R"([{"type":"host-device","pciBusID":"0000:03:00.1","ipam":{"type":"static"},)"
        R"("runtimeConfig":{"ips":[]}},{"type":"tuning","mtu":9000}])");
  CHECK(attached(pool, SelectBy::kAuxiliary, "mlx5_core.sf.4") ==
        R"([{"type":"host-device","runtimeConfig":{"ips":[],"deviceID":"mlx5_core.sf.4"},)"
        R"("ipam":{"type":"static"}},{"type":"tuning","mtu":9000}])");
  CHECK(attached(pool, SelectBy::kName, "eth1").find(R"("device":"eth1")") != std::string::npos);
}

TEST_CASE("a pool of devices without plugins has host-device alone") {
  const auto pool = pool_of(R"({"resource": "v.example/a", "devices": [{"name": ["a"]}]})");
  CHECK(attached(pool, SelectBy::kName, "a") == R"([{"type":"host-device","device":"a"}])");
}

TEST_CASE("another first plugin gets a deviceID, and no name of a link") {
  const auto pool = pool_of(R"({"resource": "v.example/a", "devices": [{"name": ["a"]}],
    "plugins": [{"type": "sriov", "vlan": 5}]})");
  for (const auto by : {SelectBy::kPci, SelectBy::kAuxiliary}) {
    CHECK(attached(pool, by, "x") == R"([{"type":"sriov","deviceID":"x","vlan":5}])");
  }
  CHECK_THROWS_AS(attached(pool, SelectBy::kName, "a"), cni::Error);
}

TEST_CASE("the first plugin of slots gets their parent, and the VLAN ID of each") {
  const auto pool = pool_of(R"({"resource": "vendor.example/macvlan",
    "slots": {"parent": "eth1", "count": 2}, "plugins": [{"type": "macvlan", "mode": "private"},
      {"type": "sbr"}]})");
  CHECK(pool.slots[0].numbers() == std::vector<unsigned>{1, 2});
  CHECK(pool.slot_id(2) == "eth1:macvlan:2");
  CHECK(attached(pool, 2U) ==
        R"([{"type":"macvlan","master":"eth1","mode":"private"},{"type":"sbr"}])");
  const auto vlan = pool_of(R"({"resource": "vendor.example/vlan",
    "slots": {"parent": "eth1", "vlanIds": [10, 20]}, "plugins": [{"type": "vlan"}]})");
  CHECK(vlan.slots[0].numbers() == std::vector<unsigned>{10, 20});
  CHECK(vlan.slot_id(20) == "eth1:vlan:20");
  CHECK(attached(vlan, 20U) == R"([{"type":"vlan","master":"eth1","vlanId":20}])");
  const auto bridge = pool_of(R"({"resource": "vendor.example/bridge", "slots": {"count": 1},
    "plugins": [{"type": "bridge", "MASTER": null, "bridge": "br1"}]})");
  CHECK(bridge.slot_id(1) == "bridge:1");
  CHECK(attached(bridge, 1U) == R"([{"type":"bridge","MASTER":null,"bridge":"br1"}])");
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

TEST_CASE("a list that is required is not an empty one where it is missing") {
  for (const char* text : {"{}", R"({"pools": null})", R"({"resourcePrefix": "v.example"})"}) {
    CHECK_THROWS_WITH(Pools::parse(text), "pools: expected a list: the key is missing");
  }
}

TEST_CASE("keys that contradict each other are refused with the path of one") {
  const auto with = [](const char* rest) {
    return refusal_of((std::string(R"({"resource": "v.example/a", )") + rest + "}").c_str());
  };
  CHECK(with(R"("force": [])").starts_with("pools[0]: expected either devices or slots"));
  CHECK(with(R"("devices": [{}])").starts_with("pools[0].devices[0]: expected an object"));
  CHECK(with(R"("slots": {"vlanIds": [2], "count": 2}, "plugins": [{"type": "vlan"}])") ==
        "pools[0].slots.count: expected no such key beside vlanIds: 2");
  CHECK(with(R"("slots": {"parent": "eth1"}, "plugins": [{"type": "macvlan"}])")
            .starts_with("pools[0].slots: expected count or vlanIds"));
  CHECK(with(R"("slots": {"count": 1})") ==
        "pools[0].plugins: expected a list of plugins, of which the first one creates the link: "
        "the key is missing");
  CHECK(with(R"("devices": [{"name": ["a"]}], "nodes": ["/dev/../etc/shadow"])")
            .starts_with("pools[0].nodes[0]: expected a path below /dev/"));
}

TEST_CASE(
    "the bandwidth of slots is a number or a quantity, and makes one device of them with dra") {
  const auto with = [](const json& bandwidth, const char* parent = "eth1", bool dra = true) {
    json slots = {{"count", 20}, {"bandwidth", bandwidth}};
    if (parent != nullptr) slots["parent"] = parent;
    json out = {{"pools", json::array({{{"resource", "v.example/slot"},
                                        {"slots", slots},
                                        {"plugins", json::array({{{"type", "macvlan"}}})}}})}};
    if (dra) out["dra"] = {{"node", "n1"}};
    return out;
  };
  const auto read = [&](const json& value) {
    return Pools::parse(with(value).dump()).pools.at(0).slots.at(0).bandwidth;
  };
  CHECK(read("10G") == 10'000'000'000);
  CHECK(read(25'000'000'000) == 25'000'000'000);
  for (const json& wrong :
       {json("fast"), json("10Gbit"), json("-1"), json(0), json(1.5), json(true)}) {
    CHECK(refusal_of(with(wrong)).find("pools[0].slots.bandwidth") == 0);
  }
  CHECK(refusal_of(with("19k")).find("at least 1000 bits per second for each slot") !=
        std::string::npos);
  CHECK(refusal_of(with("10G", nullptr)).find("expected no such key without parent") !=
        std::string::npos);
  CHECK(refusal_of(with("10G", "eth1", false)).find("without dra") != std::string::npos);
  json two = with("10G");
  two["pools"].push_back(two["pools"][0]);
  two["pools"][1]["resource"] = "v.example/other";
  two["pools"][1]["slots"]["first"] = 21;
  CHECK(refusal_of(two).find("also of v.example/slot") != std::string::npos);
}

TEST_CASE("with dra the name of a resource fits into an attribute") {
  const auto named = [](std::size_t size) {
    const std::string name = "v.example/" + std::string(size - 10, 'n');
    return json{
        {"dra", {{"node", "n1"}}},
        {"pools", json::array({{{"resource", name},
                                {"devices", json::array({{{"name", json::array({"eth1"})}}})}}})}};
  };
  CHECK(refusal_of(named(64)) == "accepted");
  CHECK(refusal_of(named(65)).find("at most 64 bytes") != std::string::npos);
}

TEST_CASE("plugins are a list of plugins that patchbay-agent can complete") {
  const auto with = [](const char* plugins, const char* rest = R"("devices": [{"name": ["a"]}])") {
    return refusal_of(
        (std::string(R"({"resource": "v.example/a", "plugins": )") + plugins + ", " + rest + "}")
            .c_str());
  };
  CHECK(with("[]") == "pools[0].plugins: expected one plugin at least: []");
  CHECK(with("{}").starts_with("pools[0].plugins: expected a list: {}"));
  CHECK(with(R"(["tap"])").starts_with("pools[0].plugins[0]: expected a plugin's config"));
  for (const char* type : {"", R"("type": 5)", R"("type": "../x")", R"("type": "")",
                           R"("type": "..")", R"("type": "devices")", R"("type": "x-devices")"}) {
    CHECK_MESSAGE(with((std::string("[{") + type + "}]").c_str())
                      .starts_with("pools[0].plugins[0].type: expected the name of a plugin's"),
                  type);
  }
  const char* const device[] = {"pciBusID", "device", "deviceID", "hwaddr", "kernelpath"};
  for (const char* key : device) {
    const json one = {{"type", "x"}, {key, "a"}};
    CHECK(with(json::array({one}).dump().c_str()) ==
          std::string("pools[0].plugins[0].") + key +
              ": expected no such key, patchbay-agent sets it: \"a\"");
    CHECK(with(json::array({json{{"type", "y"}}, one}).dump().c_str()) == "accepted");
  }
  CHECK(with(R"([{"type": "host-device", "runtimeConfig": {"deviceID": "a"}}])")
            .starts_with("pools[0].plugins[0].runtimeConfig.deviceID: expected no such key"));
  for (const char* key : {"cniVersion", "name", "prevResult"}) {
    const json plugins = json::array({json{{"type", "tuning"}}, json{{"type", "sbr"}, {key, "a"}}});
    CHECK(with(plugins.dump().c_str()) ==
          std::string("pools[0].plugins[1].") + key +
              ": expected no such key, the plugin devices sets it: \"a\"");
  }
  CHECK(with(R"([{"type": "tuning", "capabilities": {"mac": true}}])")
            .starts_with("pools[0].plugins[0].capabilities: expected no such key, no runtime"));
  const char* const slots = R"("slots": {"parent": "eth1", "vlanIds": [5]})";
  CHECK(with(R"([{"type": "vlan", "Master": "eth2"}])", slots) ==
        "pools[0].plugins[0].master: expected no such key, slots.parent sets it: \"eth2\"");
  CHECK(with(R"([{"type": "vlan", "vlanId": 6}])", slots) ==
        "pools[0].plugins[0].vlanId: expected no such key, slots.vlanIds sets it: 6");
  const char* const alone = R"("slots": {"count": 1})";
  CHECK(with(R"([{"type": "vlan", "master": "eth2", "vlanId": 6}])", alone) == "accepted");
  CHECK(with(R"([{"type": "a:b"}])", alone)
            .starts_with("pools[0].plugins[0].type: expected letters"));
  CHECK(with(R"([{"type": "a b"}])", alone)
            .starts_with("pools[0].plugins[0].type: expected letters"));
  const auto of_length = [](std::size_t length) {
    return json::array({json{{"type", std::string(length, 'a')}}}).dump();
  };
  CHECK(with(of_length(61).c_str(), alone) == "accepted");
  CHECK(
      with(of_length(62).c_str(), alone).starts_with("pools[0].plugins[0].type: expected letters"));
}

TEST_CASE("a slot belongs to one pool") {
  const json one = json::parse(R"({"resource": "v.example/a",
    "slots": {"parent": "eth1", "count": 2}, "plugins": [{"type": "macvlan"}]})");
  json other = one;
  other["resource"] = "v.example/b";
  CHECK(refusal_of(json{{"pools", {one, other}}})
            .starts_with("pools[1].slots: slot eth1:macvlan:1 belongs to v.example/a"));
  other["slots"]["first"] = 3;
  CHECK(refusal_of(json{{"pools", {one, other}}}) == "accepted");
  CHECK(refusal_of(json{{"pools", {one, one}}})
            .starts_with("pools[1].resource: another pool has this resource"));
  other["slots"] = {{"parent", "eth1"}, {"vlanIds", {7, 8, 7}}};
  CHECK(refusal_of(json{{"pools", {other}}}) ==
        "pools[0].slots.vlanIds[2]: expected another VLAN ID, it is listed twice: 7");
  other["slots"]["vlanIds"] = {7, 2};
  CHECK(refusal_of(json{{"pools", {one, other}}}) ==
        "pools[1].slots.vlanIds[1]: expected another VLAN ID, slot eth1:macvlan:2 belongs to "
        "v.example/a: 2");
}

TEST_CASE("the verdict has all complaints, and the first refusal with its code") {
  const auto verdict = devices::judge_pools(
      R"({"pools": [{"resource": "v.example/a", "slot": {}, "rdma": "yes"}]})");
  CHECK(verdict.complaints.size() == 2);
  CHECK(verdict.code == 7);
  CHECK(verdict.added.empty());
  CHECK(devices::judge_pools("{").code == 6);
  CHECK(devices::judge_pools(R"({"pools": []})").refusal.empty());
}

TEST_CASE("the verdict has the keys that are added, of each pool that is right") {
  const auto verdict = devices::judge_pools(R"({"resourcePrefix": "v.example", "pools": [
    {"resource": "wrong", "plugins": [{"type": "tap"}]},
    {"resource": "vlan", "slots": {"parent": "eth1", "vlanIds": [5]},
     "plugins": [{"type": "vlan"}]},
    {"resource": "tap", "slots": {"count": 1}, "plugins": [{"type": "tap"}]},
    {"resource": "none", "devices": [{"name": ["a"]}]},
    {"resource": "nic", "devices": [{"name": ["b"]}], "plugins": [{"type": "host-device"}]}]})");
  CHECK(verdict.refusal.starts_with("pools[0]: expected either"));
  std::string seen;
  for (const auto& one : verdict.added) seen += one.path + one.keys->dump() + "\n";
  CHECK(seen ==
        "pools[1].plugins[0]{\"master\":\"eth1\",\"vlanId\":5}\n"
        "pools[2].plugins[0]{}\n"
        "pools[4].plugins[0]{\"pciBusID\":\"0000:00:00.0\"}\n");
}

TEST_CASE("the schema describes all keys and refuses others") {
  const auto schema = devices::pools_schema();
  CHECK(schema["additionalProperties"] == false);
  const auto& pool = schema["properties"]["pools"]["items"]["properties"];
  for (const char* key : {"resource", "devices", "slots", "plugins", "force", "ifname", "cdi"}) {
    CHECK_MESSAGE(pool.contains(key), key);
  }
  CHECK(pool["slots"]["additionalProperties"] == false);
  CHECK(pool["plugins"]["items"].value("additionalProperties", true) == true);
}

#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "libcni/common/error.h"
#include "plugins/devices/agent/pools/pools.h"

using devices::Pools;
using nlohmann::json;

namespace {

json with(const json& dra, const json& pool = json::object()) {
  json one = {{"resource", "v.example/a"}, {"devices", {{{"name", {"a"}}}}}};
  one.update(pool);
  json out = {{"pools", json::array({one})}};
  if (!dra.is_null()) out["dra"] = dra;
  return out;
}

std::string refused(const json& config) {
  try {
    Pools::parse(config.dump());
  } catch (const cni::Error& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("without the key dra there is no driver, and pools are the device plugin's") {
  const Pools pools = Pools::parse(with(nullptr).dump());
  CHECK_FALSE(pools.dra);
  CHECK(pools.pools[0].device_plugin);
  CHECK(refused(with(nullptr, {{"devicePlugin", false}})) ==
        "pools[0].devicePlugin: expected true without dra: false");
}

TEST_CASE("with dra pools are the driver's, unless they say otherwise") {
  const Pools pools = Pools::parse(with(json::object()).dump());
  REQUIRE(pools.dra);
  CHECK(pools.dra->driver == "devices.patchbay");
  CHECK_FALSE(pools.pools[0].device_plugin);
  CHECK(Pools::parse(with(json::object(), {{"devicePlugin", true}}).dump()).pools[0].device_plugin);
}

TEST_CASE("the node is called as the config, the environment or the host says") {
  CHECK(Pools::parse(with({{"node", "n7"}}).dump()).dra->node == "n7");
  ::setenv("NODE_NAME", "n8", 1);
  CHECK(Pools::parse(with(json::object()).dump()).dra->node == "n8");
  ::unsetenv("NODE_NAME");
  CHECK_FALSE(Pools::parse(with(json::object()).dump()).dra->node.empty());
}

TEST_CASE("the driver is a DNS subdomain whose sockets have names that fit") {
  CHECK(refused(with({{"driver", std::string(53, 'a')}})) == "accepted");
  for (const std::string& wrong : {std::string(54, 'a'), std::string("A"), std::string("a_b"),
                                   std::string("-a"), std::string("a..b"), std::string()}) {
    CHECK(refused(with({{"driver", wrong}})).find("dra.driver") == 0);
  }
  CHECK(refused(with({{"drivers", "x"}})).find("dra.drivers") == 0);
  CHECK(refused(with({{"node", "A"}})).find("dra.node") == 0);
  CHECK(refused(with(1)).find("dra") == 0);
}

TEST_CASE("character devices of the driver's pools come by CDI, which DRA knows alone") {
  const json nodes = {{"nodes", {"/dev/vhost-net"}}};
  CHECK(Pools::parse(with(json::object(), nodes).dump()).pools[0].cdi);
  CHECK_FALSE(Pools::parse(with(nullptr, nodes).dump()).pools[0].cdi);
}

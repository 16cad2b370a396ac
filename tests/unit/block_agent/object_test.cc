#include "plugins/cluster-pool/agent/object.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "plugins/cluster-pool/agent/choice.h"
#include "plugins/cluster-pool/agent/engine_etcd.h"
#include "plugins/cluster-pool/agent/engine_kubernetes.h"

namespace block_agent {
namespace {

Object block(const std::string& network, const char* cidr) {
  return {.network = network,
          .cidr = *netlink::Cidr::parse(cidr),
          .node = "n1",
          .machine = "m",
          .claim = new_claim()};
}

TEST_CASE("names of objects are those of Kubernetes, and no two are equal") {
  CHECK(name_of(block("lab", "10.1.0.16/28")) == "lab.10-1-0-16");
  CHECK(name_of(block("lab", "fd00::/120")) == "lab.fd00-0000-0000-0000-0000-0000-0000-0000");
  CHECK(key_of(block("Lab_1", "fd00::100/120")) == "blocks/Lab_1/fd00::100");
  std::set<std::string> names;
  for (const char* network :
       {"lab", "Lab", "lAB", "lab_1", "lab-1", "lab.1", "lab-", "1..2", "a.-b"}) {
    const std::string name = name_of(block(network, "10.1.0.16/28"));
    CHECK_MESSAGE(is_node_name(name), name);  // the same rules
    CHECK(names.insert(name).second);
  }
  CHECK(name_of(block(std::string(250, 'a'), "10.1.0.16/28")).size() <= 253);
  const auto shortage = [](const char* network, const char* node) {
    return name_of({.kind = Kind::kShortage, .network = network, .node = node});
  };
  CHECK(shortage("lab", "n1") == "lab.node-n1");
  CHECK(shortage("a", "b.node-c") != shortage("a.node-b", "c"));
  CHECK(is_node_name(shortage("a.node-b", "c")));
}

TEST_CASE("what the engine stores is read back, and what is not whole is none") {
  const Object one = block("lab", "10.1.0.16/28");
  const std::string text = spec_of(one).dump();
  CHECK(object_in_text(Kind::kBlock, text) == one);
  CHECK(object_of_key("/p", "/p/blocks/lab/10.1.0.16", text) == one);
  const auto place = object_of_key("/p", "/p/blocks/lab/10.1.0.32", text);
  REQUIRE(place);
  CHECK(place->node.empty());
  CHECK(object_of_key("/p", "/p/blocks/lab/10.1.0.32", "{")->cidr.str() == "10.1.0.32/32");
  for (const char* key : {"/px/blocks/lab/10.1.0.16", "/p/other/lab/10.1.0.16",
                          "/p/blocks/10.1.0.16", "/p/blocks/a b/10.1.0.16", "/p", "/p/"}) {
    CHECK_FALSE_MESSAGE(object_of_key("/p", key, text), key);
  }
  for (const char* member : {"network", "cidr", "node", "machine", "claim"}) {
    auto spec = nlohmann::json::parse(text);
    spec[member] = "../x";
    CHECK_FALSE_MESSAGE(object_in(Kind::kBlock, spec), member);
    spec[member] = 7;
    CHECK_FALSE_MESSAGE(object_in(Kind::kBlock, spec), member);
  }
  nlohmann::json resource = {{"metadata", {{"name", "lab.10-1-0-16"}, {"resourceVersion", "12"}}},
                             {"spec", nlohmann::json::parse(text)}};
  CHECK(object_of_resource(Kind::kBlock, resource)->version == 12);
  resource["metadata"]["name"] = "lab.10-1-0-32";
  CHECK_FALSE(object_of_resource(Kind::kBlock, resource));
}

TEST_CASE("blocks are numbered from the first one of a range, across bytes") {
  const auto range = [](const char* subnet, unsigned size) {
    const auto cidr = *netlink::Cidr::parse(subnet);
    return blocks::Range{.subnet = cidr,
                         .start = cidr.ip,
                         .end = cidr.ip.broadcast(cidr.prefix),
                         .gateway = cidr.ip,
                         .block_size = size};
  };
  CHECK(block_at(range("10.1.0.0/16", 28), 0).str() == "10.1.0.0/28");
  CHECK(block_at(range("10.1.0.0/16", 28), 17).str() == "10.1.1.16/28");
  CHECK(block_at(range("10.1.0.0/16", 20), 15).str() == "10.1.240.0/20");
  CHECK(block_at(range("10.1.255.0/24", 32), 255).str() == "10.1.255.255/32");
  CHECK(block_at(range("fd00::/48", 120), 0x123456).str() == "fd00::1234:5600/120");
  CHECK(block_at(range("fd00::/48", 64), 0x1234).str() == "fd00:0:0:1234::/64");
  CHECK(block_at(range("fd00::/48", 61), 3).str() == "fd00:0:0:18::/61");
}

}  // namespace
}  // namespace block_agent

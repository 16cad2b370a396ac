#include "libcni/config/facts.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using cni::Fact;
using cni::Facts;
using nlohmann::json;

namespace {

json stated(Facts facts) {
  nlohmann::ordered_json schema = nlohmann::ordered_json::object();
  cni::add_facts(facts, schema);
  return json(schema);
}

}  // namespace

TEST_CASE("a schema states the facts and the kind of link") {
  CHECK(stated(Facts({Fact::kInterface, Fact::kRouted}, "veth")) ==
        R"({"facts": ["interface", "routed"], "linkKind": "veth"})"_json);
  CHECK(stated({}) == R"({"facts": []})"_json);  // none, and not unknown
}

TEST_CASE("the facts are read as they were stated, and words of a later version are passed over") {
  const auto all = cni::facts_in(stated({Fact::kInterface, Fact::kSourceRoutes, Fact::kKeeps}));
  REQUIRE(all);
  CHECK(all->has(Fact::kInterface));
  CHECK(all->has(Fact::kSourceRoutes));
  CHECK(all->has(Fact::kKeeps));
  CHECK_FALSE(all->has_one_of({Fact::kChained, Fact::kIpam, Fact::kVrf}));
  const auto later = cni::facts_in(R"({"facts": ["of later", 1, "vrf"]})"_json);
  REQUIRE(later);
  CHECK(later->has(Fact::kVrf));
  CHECK_FALSE(later->has(Fact::kInterface));
}

TEST_CASE("a schema without facts states none") {
  CHECK_FALSE(cni::facts_in(json()));
  CHECK_FALSE(cni::facts_in(R"({"properties": {}})"_json));
  CHECK_FALSE(cni::facts_in(R"({"facts": true})"_json));
  CHECK(cni::facts_in(R"({"facts": []})"_json));
}

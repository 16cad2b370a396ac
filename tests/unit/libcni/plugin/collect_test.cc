#include "libcni/plugin/collect.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "libcni/common/error.h"

using cni::Collect;
using cni::Life;
using cni::OwnerTag;

namespace {

std::string tag(const char* network, const char* container) {
  return OwnerTag(network, container, "eth0").text;
}

}  // namespace

TEST_CASE("GC takes what is of this network and of no valid attachment") {
  Collect collect("net", {{"c1", "eth0"}});
  CHECK(collect.takes("a", tag("net", "c2")));
  CHECK_FALSE(collect.takes("a", tag("net", "c1")));
  CHECK_FALSE(collect.takes("a", tag("other", "c2")));
  CHECK_FALSE(collect.takes("a", "of the operator"));
  CHECK(collect.takes("a", {"net", "c1", "eth1"}));
  CHECK_FALSE(collect.takes("a", {"net", "c1", "eth0"}));
  CHECK_FALSE(collect.takes("a", {"net", "c1", ""}));
  CHECK(collect.takes("a", {"net", "c2", ""}));
  CHECK_FALSE(collect.takes("a", {"other", "c2", "eth0"}));
  CHECK(collect.found().empty());
}

TEST_CASE("GC that only looks takes nothing and reports each thing once") {
  Collect collect("net", {}, Collect::Mode::kLook);
  for (int i = 0; i < 2; ++i) {
    CHECK_FALSE(collect.takes("a rule", tag("net", "c1")));
    CHECK_FALSE(collect.takes("a link", {"net", "c1", "eth0"}, Life::kAlive));
  }
  const std::string prefix = OwnerTag("net", "c1", "eth0").prefix();
  REQUIRE(collect.found().size() == 2);
  CHECK(collect.found()[0] == cni::Leftover{"a rule", "c1", "eth0", prefix});
  CHECK(collect.found()[1] == cni::Leftover{"a link", "c1", "eth0", prefix, Life::kAlive});
  CHECK(cni::leftovers_in(json_of(collect.found()).dump()) == collect.found());
  CHECK_THROWS_AS(cni::leftovers_in("{"), cni::Error);
  CHECK_FALSE(collect.takes("a rule", tag("other", "c1")));
  CHECK_FALSE(collect.takes("a link", {"third", "c1", "eth0"}));
  CHECK_FALSE(
      collect.takes("a rule", "0123456789abcdef-0123456789abcdef, net: wrong, if: e, id: c"));
  REQUIRE(collect.found().size() == 4);
  CHECK(collect.found()[2].network == "other");
  CHECK(collect.found()[3].network == "third");
  CHECK(cni::leftovers_in(json_of(collect.found()).dump()) == collect.found());
}

TEST_CASE("GC does not know the container of a tag that was cut off") {
  Collect collect("net", {}, Collect::Mode::kLook);
  const std::string whole = tag("net", "0123456789abcdef");
  collect.takes("a link", whole.substr(0, whole.size() - 1));
  CHECK(collect.found().at(0).container_id.empty());
  CHECK(whole.starts_with(collect.found()[0].tag));
}

TEST_CASE("GC of what was seen dead takes what is named and dead now, and reports it") {
  const std::string one = OwnerTag("net", "c1", "eth0").prefix();
  Collect collect("net", {}, Collect::Mode::kRemove, {one, OwnerTag("net", "c3", "").prefix()});
  CHECK_FALSE(collect.takes("a rule", tag("net", "c2")));  // added since
  CHECK_FALSE(collect.takes("a link", tag("net", "c1"), Life::kAlive));
  CHECK_FALSE(collect.takes("a lease", {"net", "c1", "eth0"}, Life::kYoung));
  CHECK_FALSE(collect.takes("a file", {"net", "c1", "eth0"}, Life::kUnseen));
  CHECK_FALSE(collect.takes("a lease", {"net", "c1", "eth1"}));
  CHECK_FALSE(collect.is_stale(tag("net", "c2")));
  CHECK(collect.found().empty());
  CHECK(collect.is_stale(tag("net", "c1")));
  CHECK(collect.takes("a rule", tag("net", "c1")));
  CHECK(collect.takes("a chain", {"net", "c3", ""}));
  REQUIRE(collect.found().size() == 2);
  CHECK(collect.found()[0] == cni::Leftover{"a rule", "c1", "eth0", one});
}

TEST_CASE("GC of what was seen dead takes nothing that the node has a sign of life of") {
  const std::string one = OwnerTag("net", "c1", "eth0").prefix();
  const std::string two = OwnerTag("net", "c2", "eth0").prefix();
  Collect collect("net", {}, Collect::Mode::kRemove, {one, two});
  collect.ask([&](const cni::Leftover& thing) { return thing.tag == one; });
  CHECK_FALSE(collect.takes("a rule", tag("net", "c1")));
  CHECK_FALSE(collect.is_stale(tag("net", "c1")));
  CHECK(collect.takes("a rule", tag("net", "c2")));
  CHECK(collect.named() == std::vector<std::string>{two});
}

TEST_CASE("GC reports of a thing in a pod that its owner is the pod's word") {
  Collect collect("net", {}, Collect::Mode::kLook);
  CHECK_FALSE(collect.takes_in_pod("a link", tag("net", "c1")));
  REQUIRE(collect.found().size() == 1);
  CHECK(collect.found()[0].is_claim);
  CHECK(collect.found()[0].life == Life::kAlive);
  CHECK(cni::leftovers_in(json_of(collect.found()).dump()) == collect.found());
}

TEST_CASE("a thing of an earlier version has no state beside alive") {
  const auto found = cni::leftovers_in(R"([{"what": "a", "alive": true}, {"what": "b"}])");
  CHECK(found.at(0).life == Life::kAlive);
  CHECK(found.at(1).life == Life::kDead);
}

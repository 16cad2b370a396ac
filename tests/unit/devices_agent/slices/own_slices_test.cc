#include "plugins/devices/agent/dra/slices/own_slices.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

using devices::dra::content_of;
using devices::dra::digest_of;
using devices::dra::Json;
using devices::dra::OwnSlices;
using devices::dra::Plan;
using devices::dra::Publisher;
using devices::dra::Wish;

namespace {

const Publisher kUs{"devices.patchbay", "n1"};

Json content(const std::string& device) { return {{"devices", Json::array({{{"name", device}}})}}; }

Wish wish(const std::vector<Json>& contents, std::int64_t generation = 0) {
  Wish out{.of = kUs, .digests = {}, .owner = "node-uid", .generation = generation};
  for (const Json& one : contents) out.digests.push_back(digest_of(one));
  return out;
}

// Carries a plan out as an API server does.
void carry_out(OwnSlices& own, const Plan& plan, const Wish& of,
               const std::vector<Json>& contents) {
  for (const auto& write : plan.writes) {
    Json object = object_of(plan, write, of, contents[write.place]);
    object["metadata"]["uid"] = "uid-" + write.name;
    object["metadata"]["resourceVersion"] = "7";
    own.insert_or_assign(write.name, devices::dra::own_slice(object, kUs).value());
  }
  for (const auto& one : plan.removals) own.erase(one.name);
}

OwnSlices published(const std::vector<Json>& contents, std::int64_t generation = 0) {
  OwnSlices own;
  const Wish of = wish(contents, generation);
  carry_out(own, plan_of(own, of), of, contents);
  return own;
}

}  // namespace

TEST_CASE("slices are created with the first generation, and then nothing is to be done") {
  const std::vector<Json> contents = {content("a"), content("b")};
  const Plan plan = plan_of({}, wish(contents));
  CHECK(plan.generation == 1);
  REQUIRE(plan.writes.size() == 2);
  CHECK(plan.writes[0].name == "n1-devices.patchbay-000");
  CHECK(plan.writes[0].version.empty());
  const Json object = object_of(plan, plan.writes[1], wish(contents), contents[1]);
  CHECK(object["spec"]["pool"] ==
        Json{{"name", "n1"}, {"generation", 1}, {"resourceSliceCount", 2}});
  CHECK(object["spec"]["nodeName"] == "n1");
  CHECK(object["spec"]["driver"] == "devices.patchbay");
  CHECK(
      object["metadata"]["ownerReferences"] ==
      Json::array({{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", "n1"}, {"uid", "node-uid"}}}));
  CHECK_FALSE(object["metadata"].contains("resourceVersion"));
  CHECK(plan_of(published(contents), wish(contents)).empty());
}

TEST_CASE("a change of one slice gives all the next generation") {
  OwnSlices own = published({content("a"), content("b")});
  const std::vector<Json> later = {content("a"), content("c")};
  const Plan plan = plan_of(own, wish(later));
  CHECK(plan.generation == 2);
  CHECK(plan.writes.size() == 2);
  CHECK(plan.writes[0].version == "7");
  carry_out(own, plan, wish(later), later);
  CHECK(plan_of(own, wish(later)).empty());
}

TEST_CASE("a generation that was begun is completed") {
  OwnSlices own = published({content("a"), content("b")});
  const std::vector<Json> later = {content("c"), content("d")};
  Plan begun = plan_of(own, wish(later));
  begun.writes.pop_back();
  carry_out(own, begun, wish(later), later);
  const Plan rest = plan_of(own, wish(later));
  CHECK(rest.generation == 2);
  REQUIRE(rest.writes.size() == 1);
  CHECK(rest.writes[0].place == 1);
}

TEST_CASE("the generation never falls") {
  CHECK(plan_of({}, wish({content("a")}, 9)).generation == 10);
  CHECK(plan_of(published({content("a")}, 9), wish({content("b")})).generation == 11);
}

TEST_CASE("slices that are too many are removed") {
  const OwnSlices own = published({content("a"), content("b")});
  const Plan one = plan_of(own, wish({content("a")}));
  CHECK(one.generation == 2);  // the number of slices changed
  CHECK(one.writes.size() == 1);
  REQUIRE(one.removals.size() == 1);
  CHECK(one.removals[0].name == "n1-devices.patchbay-001");
  CHECK(plan_of(own, wish({})).removals.size() == 2);
}

TEST_CASE("a foreign change, owner, name or pool is corrected") {
  const std::vector<Json> contents = {content("a")};
  const OwnSlices right = published(contents);
  const std::string name = slice_name(kUs, 0);
  SUBCASE("content") {
    OwnSlices own = right;
    own[name].digest = "other";
    CHECK(plan_of(own, wish(contents)).generation == 2);
    CHECK(plan_of(own, wish(contents)).writes.size() == 1);
  }
  SUBCASE("owner") {
    OwnSlices own = right;
    own[name].owner = "of an earlier node";
    CHECK(plan_of(own, wish(contents)).writes.size() == 1);
  }
  SUBCASE("a slice more") {
    OwnSlices own = right;
    own["x"] = own[name];
    own["x"].name = "x";
    const Plan plan = plan_of(own, wish(contents));
    CHECK(plan.generation == 2);
    CHECK(plan.removals.size() == 1);
  }
  SUBCASE("a pool that cannot be changed") {
    OwnSlices own = right;
    own[name].pool = "other";
    const Plan plan = plan_of(own, wish(contents));
    CHECK(plan.writes.empty());
    CHECK(plan.removals.size() == 1);
  }
}

TEST_CASE("a foreign slice with a generation at the end of the numbers is corrected once") {
  constexpr auto kLast = std::numeric_limits<std::int64_t>::max();
  const std::vector<Json> contents = {content("a")};
  for (const std::string& name : {slice_name(kUs, 0), std::string("a-copy")}) {
    for (const std::int64_t generation : {kLast, (kLast >> 1) + 2, (kLast >> 1) + 1, kLast >> 1}) {
      OwnSlices own = published(contents);
      own[name] = own[slice_name(kUs, 0)];
      own[name].name = name;
      own[name].generation = generation;
      own[name].digest = "other";
      const Plan plan = plan_of(own, wish(contents));
      CHECK_FALSE(plan.empty());
      carry_out(own, plan, wish(contents), contents);
      // As the agent goes on, and as one that starts: the rest may be one more write, not one each
      // time.
      CHECK(plan_of(own, wish(contents, plan.generation)).empty());
      const Plan restarted = plan_of(own, wish(contents));
      carry_out(own, restarted, wish(contents), contents);
      CHECK(plan_of(own, wish(contents, restarted.generation)).empty());
      CHECK(plan_of(own, wish(contents)).empty());
    }
  }
}

TEST_CASE("two instances agree after a generation at the end of the numbers") {
  constexpr auto kCounted = std::int64_t{1} << 62;
  const std::vector<Json> contents = {content("a"), content("b")};
  for (const std::int64_t generation : {kCounted - 1, kCounted, kCounted + 1}) {
    CAPTURE(generation);
    OwnSlices own = published(contents);
    own[slice_name(kUs, 0)].generation = generation;
    own[slice_name(kUs, 0)].digest = "other";
    std::array<std::int64_t, 2> highest{1, 0};  // as each remembers it; the second has just started
    int writes = 0;
    for (std::size_t turn = 0; turn < 12; ++turn) {
      std::int64_t& mine = highest.at(turn % 2);
      const Wish of = wish(contents, mine);
      const Plan plan = plan_of(own, of);
      carry_out(own, plan, of, contents);
      if (!plan.empty()) ++writes;
      if (!plan.empty()) mine = devices::dra::remembered(std::max(mine, plan.generation));
      mine = devices::dra::remembered(std::max(mine, highest_generation(own)));
    }
    CHECK(writes <= 2);
    CHECK(plan_of(own, wish(contents, highest[0])).empty());
    CHECK(plan_of(own, wish(contents, highest[1])).empty());
  }
}

TEST_CASE("what an API server adds makes no difference") {
  const Json sent = {
      {"devices",
       Json::array({{{"name", "a"},
                     {"taints", Json::array({{{"key", "k"}, {"effect", "NoSchedule"}}})}}})}};
  Json stored = sent;
  stored["devices"][0]["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z";
  stored["devices"][0]["bindingConditions"] = nullptr;
  stored["taints"] = nullptr;
  stored["sharedCounters"] = Json::array();
  stored["driver"] = kUs.driver;
  stored["nodeName"] = kUs.node;
  stored["pool"] = {{"name", "n1"}};
  const Json object = {{"metadata", {{"name", "x"}}}, {"spec", stored}};
  CHECK(content_of(object) == sent);
  stored["allNodes"] = true;
  CHECK(content_of({{"metadata", {{"name", "x"}}}, {"spec", stored}}) != sent);
}

TEST_CASE("objects of others, and what is no slice, are not ours") {
  const Json ours = {{"metadata", {{"name", "x"}}},
                     {"spec", {{"driver", kUs.driver}, {"nodeName", "n1"}}}};
  CHECK(devices::dra::own_slice(ours, kUs));
  Json other = ours;
  other["spec"]["driver"] = "dra.net";
  CHECK_FALSE(devices::dra::own_slice(other, kUs));
  other = ours;
  other["spec"]["nodeName"] = "n2";
  CHECK_FALSE(devices::dra::own_slice(other, kUs));
  other = ours;
  other["metadata"]["name"] = 3;
  CHECK_FALSE(devices::dra::own_slice(other, kUs));
  for (const Json& one :
       {Json(), Json(1), Json::array(), Json{{"spec", 1}}, Json{{"metadata", "m"}}}) {
    CHECK_FALSE(devices::dra::own_slice(one, kUs));
  }
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({deep});
  other = ours;
  other["spec"]["devices"] = deep;
  CHECK(devices::dra::own_slice(other, kUs)->digest != devices::dra::own_slice(ours, kUs)->digest);
}

TEST_CASE("names sort by place, and are never longer than an object's may be") {
  CHECK(slice_name(kUs, 9) < slice_name(kUs, 10));
  const Publisher far{"devices.patchbay", std::string(253, 'n')};
  CHECK(slice_name(far, 0).size() == 253);
  CHECK(slice_name(far, 0) != slice_name(Publisher{"devices.patchbay", std::string(252, 'n')}, 0));
}

TEST_CASE("an event that is older than what is known is recognized") {
  CHECK(devices::dra::is_older("9", "10"));
  CHECK_FALSE(devices::dra::is_older("10", "10"));
  CHECK_FALSE(devices::dra::is_older("x", "10"));
  CHECK_FALSE(devices::dra::is_older("9", ""));
}

#include "plugins/devices/agent/dra/init_devices.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libcni/common/error.h"
#include "plugins/devices/agent/dra/pod_specs.h"

using devices::Claim;
using devices::Entries;
using devices::Entry;
using devices::Owned;
using devices::Pod;
using devices::dra::init_requests;
using devices::dra::unlisted;

namespace {

using Ids = std::vector<std::string>;
using Requests = std::map<std::string, std::size_t>;
using Json = nlohmann::json;

constexpr const char* kNic = "v.example/nic";
const Pod kInitPod{"shop", "job-0", "u1"};

Json container(const Json& limits) { return {{"name", "c"}, {"resources", {{"limits", limits}}}}; }

Json pod_with(const Json& init) {
  return {{"spec", {{"initContainers", init}, {"containers", {container({{kNic, "9"}})}}}}};
}

Entry promised_at(const char* id, std::int64_t promised) {
  Entry out{.id = id, .resource = kNic};
  out.promised = promised;
  return out;
}

Entries entries_of(const std::vector<Entry>& list) {
  Entries out;
  for (const Entry& one : list) out.emplace(one.id, one);
  return out;
}

Ids unlisted_of(const std::vector<Entry>& list, std::size_t count, const Ids& listed = {}) {
  try {
    return unlisted(kInitPod, {kNic, listed}, count, entries_of(list));
  } catch (const cni::Error& e) {
    CHECK(e.code() == cni::Code::kTryAgainLater);
    return {"refused"};
  }
}

}  // namespace

TEST_CASE("init containers run one after the other, with the same devices") {
  CHECK(init_requests(pod_with({container({{kNic, "1"}, {"cpu", "100m"}}), container({{kNic, "3"}}),
                                container({{kNic, 2}})})) == Requests{{kNic, 3}});
}

TEST_CASE("PodResources lists restartable init containers") {
  Json sidecar = container({{kNic, "2"}});
  sidecar["restartPolicy"] = "Always";
  CHECK(init_requests(pod_with({sidecar, container({{kNic, "1"}})})) == Requests{{kNic, 1}});
}

TEST_CASE("a pod of any other form asks for nothing") {
  for (const Json& odd :
       {Json(), Json(7), Json({{"spec", 7}}), pod_with(7),
        pod_with({7, nullptr, {{"resources", 7}}}), pod_with({container(7)}),
        pod_with({container({{kNic, -1}, {"a", "x"}, {"b", "1k"}, {"c", ""}})})}) {
    CHECK(init_requests(odd).empty());
  }
}

TEST_CASE("a pod asks for no device if its spec says so, and not if it is odd") {
  using devices::dra::asks_for_no_device;
  const auto spec = [](Json more) {
    Json out = {{"containers", {{{"name", "main"}, {"resources", {{"limits", {{"cpu", "1"}}}}}}}}};
    out.update(more);
    return Json{{"spec", out}};
  };
  CHECK(asks_for_no_device(spec(Json::object())));
  CHECK(asks_for_no_device(spec({{"resourceClaims", Json::array()}, {"initContainers", nullptr}})));
  CHECK_FALSE(asks_for_no_device(spec({{"resourceClaims", {{{"name", "nic"}}}}})));
  CHECK_FALSE(asks_for_no_device(spec({{"schedulingGroup", {{"podGroupName", "g"}}}})));
  CHECK_FALSE(asks_for_no_device(spec({{"initContainers", {container({{kNic, "1"}})}}})));
  CHECK_FALSE(asks_for_no_device(spec({{"resources", {{"requests", {{kNic, "1"}}}}}})));
  for (const Json& odd :
       {Json(), Json(7), Json({{"spec", 7}}), Json({{"spec", Json::object()}}),
        spec({{"resourceClaims", 7}}), spec({{"containers", {7}}}), spec({{"initContainers", 7}}),
        spec({{"ephemeralContainers", {{{"resources", 7}}}}}),
        spec({{"containers", {{{"resources", {{"limits", 7}}}}}}})}) {
    CAPTURE(odd.dump());
    CHECK_FALSE(asks_for_no_device(odd));
  }
}

TEST_CASE("promises are the pod's where they cannot be another one's") {
  CHECK(unlisted_of({promised_at("a", 5)}, 1) == Ids{"a"});
  CHECK(unlisted_of({promised_at("a", 5), promised_at("b", 5)}, 2) == Ids{"a", "b"});
  CHECK(unlisted_of({promised_at("a", 5), promised_at("b", 6), promised_at("c", 6)}, 1) ==
        Ids{"a"});
  CHECK(unlisted_of({promised_at("a", 5), promised_at("b", 6)}, 1, {"b"}) == Ids{"a"});
}

TEST_CASE("two Allocates within a second are two") {
  Entry first = promised_at("a", 5), later = promised_at("b", 5), beside = promised_at("c", 5);
  first.since = {"boot", 5'001};
  later.since = beside.since = {"boot", 5'700};
  CHECK(unlisted_of({first, later, beside}, 1) == Ids{"a"});
  CHECK(unlisted_of({first, later, beside}, 2) == Ids{"b", "c"});
}

TEST_CASE("the pod is tried again while another one may be meant") {
  CHECK(unlisted_of({promised_at("a", 5), promised_at("b", 6)}, 1) == Ids{"refused"});
  CHECK(unlisted_of({promised_at("a", 5), promised_at("b", 5)}, 1) == Ids{"refused"});
  CHECK(unlisted_of({promised_at("a", 5)}, 2) == Ids{"refused"});
  CHECK(unlisted_of({}, 1) == Ids{"refused"});
}

TEST_CASE("what the ledger has as the pod's is its own, for its next sandbox") {
  Entry own = promised_at("a", 5);
  own.pod = kInitPod;
  CHECK(unlisted_of({own, promised_at("b", 6)}, 1) == Ids{"a"});
  CHECK(unlisted_of({own, promised_at("b", 6)}, 2) == Ids{"a", "b"});
  own.pod->uid = "u0";
  CHECK(unlisted_of({own}, 1) == Ids{"refused"});
}

TEST_CASE("devices of claims, of other resources and torn ones are not taken for it") {
  Entry claim = promised_at("a", 5), other = promised_at("b", 5), torn = promised_at("c", 5);
  claim.claim = Claim{};
  other.resource = "v.example/tap";
  torn.promise = Entry::Promise::kTorn;
  CHECK(unlisted_of({claim, other, torn}, 1) == Ids{"refused"});
}

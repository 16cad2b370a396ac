#include "plugins/vrf/state.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/surroundings.h"

using vrf::State;

namespace {

const State kState{
    .owner = {.key = {"net", "c1", "net1"}, .netns = "/run/netns/pod", .cookie = 4711},
    .vrf = "blue",
    .table = 4294967295,
    .index = 7,
    .routes = {"0200"},
    .ipv6 = vrf::Ipv6State{.keep_addr_on_down = -1, .accept_dad = 2},
    .keeps_vrf = true};

}  // namespace

TEST_CASE("a state is read back as it was written") { CHECK(State::from(kState.text()) == kState); }

TEST_CASE("a file of 0.1.0 is read") {
  const auto state = State::from(surroundings::corpus("state_files/vrf_of_0.1.0"));
  REQUIRE(state);
  CHECK(state->vrf == "blue");
  CHECK(state->table == 1);
  CHECK(state->keeps_vrf);
  CHECK_FALSE(state->ipv6);
}

TEST_CASE("a torn file is none, and other JSON is refused") {
  CHECK_FALSE(State::from(""));
  CHECK_FALSE(State::from("{"));
  for (const char* text : {"[]", "{}", R"({"network": "n", "containerID": "c"})"}) {
    CHECK_THROWS_AS_MESSAGE(static_cast<void>(State::from(text)), cni::Error, text);
  }
  for (const char* key : {"vrf", "table", "index", "keepsVRF", "routes", "ipv6", "netnsCookie"}) {
    auto doc = nlohmann::json::parse(kState.text());
    doc[key] = nlohmann::json::array({-1});
    CHECK_THROWS_AS_MESSAGE(static_cast<void>(State::from(doc.dump())), cni::Error, key);
  }
}

TEST_CASE("the file of an interface does not depend on the network") {
  plugins::StateOwner other = kState.owner;
  other.key.network = "other";
  CHECK(State::file_of(other) == State::file_of(kState.owner));
  other.key.ifname = "net2";
  CHECK(State::file_of(other) != State::file_of(kState.owner));
}

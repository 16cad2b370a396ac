#include "plugins/sbr/state.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/surroundings.h"

using netlink::Ip;
using sbr::State;

TEST_CASE("a state is read back as it was written") {
  const State state{
      .owner = {.key = {"net", "c1", "net1"}, .netns = "/run/netns/pod", .cookie = 4711},
      .addresses = {*Ip::parse("10.1.2.3"), *Ip::parse("fd00::1")},
      .tables = {100, 4294967295},
      .moved = {"10.9.0.0/16 via 10.1.2.1 metric 0"},
      .routes = {"0210"},
      .hints = {"fd00::/64 src fd00::1 metric 256"}};
  CHECK(State::from(state.text()) == state);
}

TEST_CASE("a file of before the routes were kept is read") {
  const State state{.addresses = {*Ip::parse("10.1.2.3")}, .tables = {100}, .moved = {"words"}};
  auto doc = nlohmann::json::parse(state.text());
  doc.erase("routes");
  doc.erase("hints");
  CHECK(State::from(doc.dump()) == state);
}

TEST_CASE("a file of 0.1.0 is read") {
  const auto state = State::from(surroundings::corpus("state_files/sbr_of_0.1.0"));
  REQUIRE(state);
  CHECK(state->addresses == std::vector{*Ip::parse("10.1.2.3"), *Ip::parse("fd00::1")});
  CHECK(state->tables == std::vector<std::uint32_t>{100, 4294967295});
  CHECK(state->moved.size() == 1);
  CHECK(state->routes.empty());
}

TEST_CASE("a torn file is none, and other JSON is refused") {
  CHECK_FALSE(State::from(""));
  CHECK_FALSE(State::from("{"));
  for (const char* text : {"[]", "{}", R"({"network": "n", "containerID": "c"})"}) {
    CHECK_THROWS_AS_MESSAGE(static_cast<void>(State::from(text)), cni::Error, text);
  }
  for (const char* key : {"addresses", "tables", "moved", "routes", "hints", "netnsCookie"}) {
    auto doc =
        nlohmann::json::parse(State{.addresses = {*Ip::parse("10.1.2.3")}, .tables = {100}}.text());
    doc[key] = nlohmann::json::array({-1});
    CHECK_THROWS_AS_MESSAGE(static_cast<void>(State::from(doc.dump())), cni::Error, key);
  }
}

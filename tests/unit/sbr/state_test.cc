#include "plugins/sbr/state.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using netlink::Ip;
using sbr::State;
using sbr::state_from;
using sbr::text_of;

TEST_CASE("a state is read back as it was written") {
  const State state{.network = "net",
                    .container_id = "c1",
                    .ifname = "net1",
                    .netns = "/run/netns/pod",
                    .cookie = 4711,
                    .addresses = {*Ip::parse("10.1.2.3"), *Ip::parse("fd00::1")},
                    .tables = {100, 4294967295}};
  CHECK(state_from(text_of(state)) == state);
}

TEST_CASE("a torn file is none") {
  for (const char* text : {"", "{", "[]", "{}", R"({"network": "n", "containerID": "c"})"}) {
    CHECK_FALSE_MESSAGE(state_from(text).has_value(), text);
  }
  for (const char* key : {"addresses", "tables", "netnsCookie"}) {
    auto doc = nlohmann::json::parse(text_of(State{.addresses = {*Ip::parse("10.1.2.3")}}));
    doc[key] = nlohmann::json::array({-1});
    CHECK_FALSE_MESSAGE(state_from(doc.dump()).has_value(), key);
  }
}

TEST_CASE("a state is of its namespace, or of any where the kernel does not say") {
  CHECK(State{.cookie = 5}.is_of(5));
  CHECK_FALSE(State{.cookie = 5}.is_of(6));
  CHECK(State{.cookie = 5}.is_of(0));
  CHECK(State{}.is_of(6));
}

#include "plugins/tuning/state.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using tuning::State;

TEST_CASE("a state is read back as it was written") {
  State state{.owner = {"net", "c1", "eth0", "/run/netns/pod", 4711},
              .link = {.mac = netlink::Mac::parse("02:00:5e:10:20:30"),
                       .promiscuous = false,
                       .mtu = 1500,
                       .all_multicast = true,
                       .tx_queue_length = 1000},
              .host_mtu = 1500,
              .sysctls = {{"ipv4/conf/eth0.100/arp_filter", "0"}, {"ipv4/ip_forward", ""}}};
  CHECK(State::from(state.text()) == state);
  CHECK(State::from(State{}.text()) == State{});
}

TEST_CASE("the keys of the interface are the reference plugin's") {
  const State state{.link = {.mac = netlink::Mac::parse("02:00:5e:10:20:30"),
                             .promiscuous = true,
                             .mtu = 1500,
                             .all_multicast = false,
                             .tx_queue_length = 1000}};
  auto found = nlohmann::json::parse(state.text());
  found.erase("patchbay");
  CHECK(found == nlohmann::json::parse(R"({"mac": "02:00:5e:10:20:30", "promisc": true, "mtu": 1500,
                                           "allmulti": false, "txQLen": 1000})"));
  CHECK(State::from(R"({"mtu": 1400})") == State{.link = {.mtu = 1400}});
}

TEST_CASE("a torn file, or one that leads elsewhere, is none") {
  for (const char* text : {"", "{", "[]", R"({"mtu": -1})", R"({"mtu": "1"})", R"({"patchbay": 1})",
                           R"({"patchbay": {}})"}) {
    CHECK_FALSE_MESSAGE(State::from(text).has_value(), text);
  }
  const std::string text = State{.sysctls = {{"ipv4/ip_forward", "0"}}}.text();
  for (const char* key : {"../kernel/x", "/x", "a//b", "", "ipv4/.."}) {
    auto doc = nlohmann::json::parse(text);
    doc["patchbay"]["sysctls"][0]["key"] = key;
    CHECK_FALSE_MESSAGE(State::from(doc.dump()).has_value(), key);
  }
}

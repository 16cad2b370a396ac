#include "plugins/tuning/state.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using tuning::State;
using tuning::state_from;
using tuning::text_of;

TEST_CASE("a state is read back as it was written") {
  State state{.network = "net",
              .container_id = "c1",
              .ifname = "eth0",
              .netns = "/run/netns/pod",
              .cookie = 4711,
              .link = {.mac = netlink::Mac::parse("02:00:5e:10:20:30"),
                       .promiscuous = false,
                       .mtu = 1500,
                       .all_multicast = true,
                       .tx_queue_length = 1000,
                       .host_mtu = 1500},
              .sysctls = {{"ipv4/conf/eth0.100/arp_filter", "0"}, {"ipv4/ip_forward", ""}}};
  CHECK(state_from(text_of(state)) == state);
  CHECK(state_from(text_of(State{})) == State{});
}

TEST_CASE("the keys of the interface are the reference plugin's") {
  const State state{.link = {.mac = netlink::Mac::parse("02:00:5e:10:20:30"),
                             .promiscuous = true,
                             .mtu = 1500,
                             .all_multicast = false,
                             .tx_queue_length = 1000}};
  auto found = nlohmann::json::parse(text_of(state));
  found.erase("patchbay");
  CHECK(found == nlohmann::json::parse(R"({"mac": "02:00:5e:10:20:30", "promisc": true, "mtu": 1500,
                                           "allmulti": false, "txQLen": 1000})"));
  CHECK(state_from(R"({"mtu": 1400})") == State{.link = {.mtu = 1400}});
}

TEST_CASE("a torn file, or one that leads elsewhere, is none") {
  for (const char* text : {"", "{", "[]", R"({"mtu": -1})", R"({"mtu": "1"})", R"({"patchbay": 1})",
                           R"({"patchbay": {}})"}) {
    CHECK_FALSE_MESSAGE(state_from(text).has_value(), text);
  }
  const std::string text = text_of(State{.sysctls = {{"ipv4/ip_forward", "0"}}});
  for (const char* key : {"../kernel/x", "/x", "a//b", "", "ipv4/.."}) {
    auto doc = nlohmann::json::parse(text);
    doc["patchbay"]["sysctls"][0]["key"] = key;
    CHECK_FALSE_MESSAGE(state_from(doc.dump()).has_value(), key);
  }
}

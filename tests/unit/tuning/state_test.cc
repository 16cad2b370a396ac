#include "plugins/tuning/state.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/surroundings.h"

using tuning::State;

TEST_CASE("a state is read back as it was written") {
  State state{.owner = {{"net", "c1", "eth0"}, "/run/netns/pod", 4711},
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

TEST_CASE("settings and sysctls in two files, as of 0.1.0, are one state") {
  const surroundings::Folder dir;
  const auto states = tuning::StateDir::create(dir.path());
  const std::string text = surroundings::corpus("state_files/tuning_of_0.1.0");
  const plugins::StateOwner owner{{"net", "c1", "eth0"}, "/run/netns/pod", 4711};
  auto link = nlohmann::json::parse(text), sysctls = link;
  link["patchbay"].erase("sysctls");
  for (const char* const key : {"mac", "promisc", "mtu", "allmulti", "txQLen"}) sysctls.erase(key);
  sysctls["patchbay"].erase("hostMTU");
  std::ofstream(dir.file("c1_eth0.sysctl.json")) << sysctls.dump(1);
  auto state = tuning::read_state(states, owner);
  REQUIRE(state);
  CHECK(state->owner == owner);
  CHECK(state->sysctls == std::vector<tuning::Sysctl>{{"ipv4/conf/eth0/arp_filter", "0"}});
  CHECK(state->link == tuning::LinkSettings{});
  std::ofstream(dir.file("c1_eth0.json")) << link.dump(1);
  CHECK(tuning::read_state(states, owner) == State::from(text));
  tuning::remove_state(states, owner);
  CHECK(std::filesystem::is_empty(dir.path()));
  CHECK_FALSE(tuning::read_state(states, owner));
}

TEST_CASE("a torn file is none, and JSON that leads elsewhere is refused") {
  CHECK_FALSE(State::from(""));
  CHECK_FALSE(State::from("{"));
  for (const char* text :
       {"[]", R"({"mtu": -1})", R"({"mtu": "1"})", R"({"patchbay": 1})", R"({"patchbay": {}})"}) {
    CHECK_THROWS_AS_MESSAGE(static_cast<void>(State::from(text)), cni::Error, text);
  }
  const std::string text = State{.sysctls = {{"ipv4/ip_forward", "0"}}}.text();
  for (const char* key : {"../kernel/x", "/x", "a//b", "", "ipv4/.."}) {
    auto doc = nlohmann::json::parse(text);
    doc["patchbay"]["sysctls"][0]["key"] = key;
    CHECK_THROWS_AS_MESSAGE(static_cast<void>(State::from(doc.dump())), cni::Error, key);
  }
}

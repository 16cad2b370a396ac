#include "plugins/state/dhcp_lease.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/dhcp/ip.h"
#include "tests/unit/surroundings.h"

using dhcp::State;
using std::chrono::seconds;

namespace {

State sample_state() {
  return {.owner = {{"net", "c1", "eth0"}, "/run/netns/c1", 4711},
          .link = 2,
          .identity = {.client_id = {0, 'c', 0xff},
                       .provided = {{12, {'h'}}, {60, {'v', 'w'}}},
                       .wanted = {3, 1, 121},
                       .broadcast = true,
                       .probe = true},
          .priority = 7,
          .dns = true,
          .lease = dhcp::Lease{.address = {ip("10.0.0.5"), 24},
                               .gateway = ip("10.0.0.1"),
                               .routes = {{.dst = {ip("0.0.0.0"), 0}, .gateway = ip("10.0.0.1")}},
                               .dns = {.nameservers = {"10.0.0.53"}},
                               .mtu = 1400,
                               .server = ip("10.0.0.1"),
                               .server_mac = netlink::Mac::parse("02:00:00:00:00:99"),
                               .renew = seconds(40),
                               .rebind = seconds(70),
                               .expire = seconds(80)},
          .boot = "boot"};
}

}  // namespace

TEST_CASE("a state is read back as it was written") {
  CHECK(State::from(sample_state().text(), "boot") == sample_state());
  State state = sample_state();
  state.lease->expire = state.lease->rebind = state.lease->renew = dhcp::kNever;
  state.lease->gateway.reset();
  state.lease->server_mac.reset();
  CHECK(State::from(state.text(), "boot") == state);
  state.lease.reset();
  CHECK(State::from(state.text(), "boot") == state);
}

TEST_CASE("a state of another boot is none, a torn one neither, and other JSON is refused") {
  const std::string text = sample_state().text();
  CHECK_FALSE(State::from(text, "next"));
  for (std::size_t size = 0; size < text.size(); size += 7) {
    CHECK_FALSE(State::from(text.substr(0, size), "boot"));
  }
  for (const char* key : {"network", "netns", "link", "identity", "lease", "priority"}) {
    auto doc = nlohmann::json::parse(text);
    doc[key] = nlohmann::json::array({-1});
    CHECK_THROWS_AS_MESSAGE(static_cast<void>(State::from(doc.dump(), "boot")), cni::Error, key);
  }
}

TEST_CASE("a lease of 0.1.0 is read") {
  const auto state = State::from(surroundings::corpus("dhcp_state/lease_of_0.1.0"), "b");
  REQUIRE(state);
  CHECK(state->owner == plugins::StateOwner{{"net1", "pod1", "eth0"}, "/run/netns/pod1", 85708});
  CHECK(state->link == 2);
  const std::string id("\0pod1/net1/eth0", 15);
  CHECK(state->identity == dhcp::Identity{.client_id = {id.begin(), id.end()},
                                          .provided = {{12, {'h'}}},
                                          .wanted = {6, 15, 119, 26, 121, 33, 3, 1}});
  CHECK(
      state->lease ==
      dhcp::Lease{.address = {ip("10.77.0.71"), 24},
                  .gateway = ip("10.77.0.1"),
                  .routes = {{.dst = {ip("198.51.100.0"), 24}, .gateway = ip("10.77.0.2")},
                             {.dst = {ip("192.0.2.0"), 24}, .gateway = ip("0.0.0.0"), .scope = 253},
                             {.dst = {ip("0.0.0.0"), 0}, .gateway = ip("10.77.0.1")}},
                  .dns = {.nameservers = {"10.77.0.53"},
                          .domain = "a.test",
                          .search = {"a.test", "b.a.test"}},
                  .mtu = 1400,
                  .server = ip("10.77.0.1"),
                  .server_mac = netlink::Mac::parse("02:00:5e:00:77:01"),
                  .renew = dhcp::Time(8400479),
                  .rebind = dhcp::Time(9750479),
                  .expire = dhcp::Time(10200479)});
  CHECK(State::from(state->text(), "b") == state);
  const auto lost = State::from(surroundings::corpus("dhcp_state/lost_of_0.1.0"), "b");
  REQUIRE(lost);
  CHECK_FALSE(lost->lease);
  CHECK(lost->identity == state->identity);
  CHECK_FALSE(State::from(surroundings::corpus("dhcp_state/lease_of_0.1.0"), "next"));
}

TEST_CASE("a lease of 0.1.0 that is not whole is refused") {
  const auto whole = nlohmann::json::parse(surroundings::corpus("dhcp_state/lease_of_0.1.0"));
  const std::pair<const char*, nlohmann::json> others[] = {
      {"/identity/clientID", "0"},       {"/identity/clientID", "0x"},
      {"/identity/provided/x", "00"},    {"/identity/provided/256", "00"},
      {"/lease/result/ips", {}},         {"/lease/result/routes", {1}},
      {"/lease/result/dns", "10.0.0.1"}, {"/lease/server", ""}};
  for (const auto& other : others) {
    CAPTURE(other.first);
    auto doc = whole;
    doc[nlohmann::json::json_pointer(other.first)] = other.second;
    CHECK_THROWS_AS(static_cast<void>(State::from(doc.dump(), "b")), cni::Error);
  }
}

TEST_CASE("the result has the metric, and the DNS where it is wanted") {
  State state = sample_state();
  CHECK(result_of(state).routes.at(0).priority == 7);
  CHECK(result_of(state).dns.nameservers.size() == 1);
  state.dns = false;
  CHECK(result_of(state).dns.empty());
  state.lease.reset();
  CHECK(result_of(state) == cni::Result{});
}

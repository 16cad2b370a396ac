#include "plugins/dhcp/daemon/state.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/dhcp/ip.h"

using dhcp::State;
using std::chrono::seconds;

namespace {

State sample_state() {
  return {.owner = {"net", "c1", "eth0", "/run/netns/c1", 4711},
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

TEST_CASE("a state of another boot is none, and a torn one neither") {
  const std::string text = sample_state().text();
  CHECK_FALSE(State::from(text, "next"));
  for (std::size_t size = 0; size < text.size(); size += 7) {
    CHECK_FALSE(State::from(text.substr(0, size), "boot"));
  }
  for (const char* key : {"network", "netns", "link", "identity", "lease", "priority"}) {
    auto doc = nlohmann::json::parse(text);
    doc[key] = nlohmann::json::array({-1});
    CHECK_FALSE_MESSAGE(State::from(doc.dump(), "boot"), key);
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

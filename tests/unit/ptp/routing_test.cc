#include "plugins/ptp/routing.h"

#include <doctest/doctest.h>

#include "libcni/common/error.h"

using cni::Cidr;
using cni::Ip;
using cni::Result;

namespace {

cni::Address address(const char* cidr, const char* gateway = nullptr) {
  cni::Address out{.cidr = Cidr::parse(cidr).value()};
  if (gateway != nullptr) out.gateway = Ip::parse(gateway).value();
  return out;
}

std::string gateway_of(const char* cidr) {
  Result result{.ips = {address(cidr)}};
  ptp::choose_gateways(result);
  return result.ips.front().gateway.value().str();
}

// As ip(8) shows them.
std::string routes(const std::vector<netlink::LinkRoute>& all) {
  std::string out;
  for (const auto& one : all) {
    out += cni::cat(out.empty() ? "" : "; ", one.dst.str());
    if (one.gateway) out += cni::cat(" via ", one.gateway->str());
    if (one.scope != 0) out += cni::cat(" scope ", unsigned{one.scope});
    if (one.source) out += cni::cat(" src ", one.source->str());
  }
  return out;
}

std::string pod_routes(const std::vector<cni::Address>& ips,
                       const std::vector<cni::Route>& from_ipam = {}) {
  return routes(ptp::routing_of({.ips = ips, .routes = from_ipam}, "eth0").pod);
}

cni::Route route(const char* dst) { return {.dst = Cidr::parse(dst).value()}; }

}  // namespace

TEST_CASE("the gateway that IPAM leaves open is the first host of the subnet") {
  CHECK(gateway_of("10.1.2.7/24") == "10.1.2.1");
  CHECK(gateway_of("10.1.2.7/29") == "10.1.2.1");
  CHECK(gateway_of("fd00:1:2::7/64") == "fd00:1:2::1");
  CHECK(gateway_of("fd00:1:2:3:4000::7/66") == "fd00:1:2:3:4000::1");
}

TEST_CASE("of two addresses in a subnet it is the other one") {
  CHECK(gateway_of("10.1.2.6/31") == "10.1.2.7");
  CHECK(gateway_of("10.1.2.7/31") == "10.1.2.6");
  CHECK(gateway_of("fd00::6/127") == "fd00::7");
  CHECK(gateway_of("fd00::7/127") == "fd00::6");
}

TEST_CASE("it is link-local where the subnet has none for it") {
  CHECK(gateway_of("10.1.2.1/24") == "169.254.1.1");
  CHECK(gateway_of("10.1.2.7/32") == "169.254.1.1");
  CHECK(gateway_of("255.255.255.255/32") == "169.254.1.1");
  CHECK(gateway_of("fd00::1/64") == "fe80::1");
  CHECK(gateway_of("fd00::7/128") == "fe80::1");
}

TEST_CASE("the gateway of IPAM stays") {
  Result result{.ips = {address("10.1.2.7/24", "10.9.9.9")}};
  ptp::choose_gateways(result);
  CHECK(result.ips.front().gateway == Ip::parse("10.9.9.9"));
}

TEST_CASE("a pod reaches its subnet through the gateway, and the gateway over the link") {
  CHECK(pod_routes({address("10.1.2.7/24", "10.1.2.1")}) ==
        "10.1.2.1/32 scope 253 src 10.1.2.7; 10.1.2.0/24 via 10.1.2.1 src 10.1.2.7");
  CHECK(pod_routes({address("fd00::7/64", "fd00::1")}) ==
        "fd00::1/128 scope 253 src fd00::7; fd00::/64 via fd00::1 src fd00::7");
  CHECK(pod_routes({address("10.1.2.7/32", "169.254.1.1")}) ==
        "169.254.1.1/32 scope 253 src 10.1.2.7");
}

TEST_CASE("addresses with one gateway have one route to it") {
  CHECK(pod_routes({address("10.1.2.7/24", "10.1.2.1"), address("10.1.2.8/24", "10.1.2.1")}) ==
        "10.1.2.1/32 scope 253 src 10.1.2.7; 10.1.2.0/24 via 10.1.2.1 src 10.1.2.7");
  CHECK(pod_routes({address("10.1.2.7/24", "10.1.2.1"), address("10.1.3.7/24", "10.1.2.1")}) ==
        "10.1.2.1/32 scope 253 src 10.1.2.7; 10.1.2.0/24 via 10.1.2.1 src 10.1.2.7; "
        "10.1.3.0/24 via 10.1.2.1 src 10.1.3.7");
}

TEST_CASE("of two gateways in one subnet both are reached, and the first one leads there") {
  CHECK(pod_routes({address("10.1.2.7/24", "10.1.2.1"), address("10.1.2.8/24", "10.1.2.2")}) ==
        "10.1.2.1/32 scope 253 src 10.1.2.7; 10.1.2.0/24 via 10.1.2.1 src 10.1.2.7; "
        "10.1.2.2/32 scope 253 src 10.1.2.8");
}

TEST_CASE("a route of IPAM to the subnet replaces the one through the gateway") {
  const std::vector<cni::Address> ips{address("10.1.2.7/24", "10.1.2.1")};
  const std::string alone = "10.1.2.1/32 scope 253 src 10.1.2.7";
  CHECK(pod_routes(ips, {route("10.1.2.0/24")}) == alone);
  cni::Route other = route("10.1.2.0/24");
  other.table = 100;
  CHECK(pod_routes(ips, {other, route("10.0.0.0/8"), route("10.1.2.0/25")}) != alone);
}

TEST_CASE("the node has each gateway once, and a route to each address") {
  const auto routing = ptp::routing_of(
      {.ips = {address("10.1.2.7/24", "10.1.2.1"), address("10.1.2.8/24", "10.1.2.1"),
               address("fd00::7/64", "fd00::1")}},
      "eth0");
  CHECK(routing.gateways ==
        std::vector{Cidr::parse("10.1.2.1/32").value(), Cidr::parse("fd00::1/128").value()});
  CHECK(routes(routing.node) ==
        "10.1.2.7/32 scope 254; 10.1.2.8/32 scope 254; fd00::7/128 scope 254");
  for (const auto& one : routing.node) CHECK(one.exclusive);
  CHECK(routing.has(netlink::Family::kIpv6));
  CHECK_FALSE(ptp::routing_of({}, "eth0").has(netlink::Family::kIpv4));
}

TEST_CASE("addresses of other interfaces are no concern") {
  Result result{.interfaces = {{.name = "veth0"}, {.name = "eth0"}, {.name = "net1"}},
                .ips = {address("10.1.2.7/24", "10.1.2.1"), address("10.1.3.7/24", "10.1.3.1")}};
  result.ips[0].interface = 1;
  result.ips[1].interface = 2;
  CHECK(routes(ptp::routing_of(result, "eth0").node) == "10.1.2.7/32 scope 254");
}

TEST_CASE("a gateway that is an address of the pod is refused") {
  CHECK_THROWS_AS(pod_routes({address("10.1.2.1/24", "10.1.2.1")}), cni::Error);
  CHECK_THROWS_AS(
      pod_routes({address("10.1.2.7/24", "10.1.2.8"), address("10.1.2.8/24", "10.1.2.1")}),
      cni::Error);
}

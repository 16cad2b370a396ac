#include "plugins/portmap/mapping.h"

#include <doctest/doctest.h>

#include "libcni/common/error.h"

using netlink::Cidr;
using netlink::Ip;
using portmap::Mapping;
using portmap::PodAddresses;
using portmap::Protocol;

namespace {

const PodAddresses kDual{Cidr::parse("10.1.2.3/24"), Cidr::parse("fd00::3/64")};

std::string text(const std::vector<portmap::Claim>& claims) {
  std::string out;
  for (const auto& claim : claims) {
    out += cni::cat(claim.key.str(), " -> ", claim.target.str(), " ", claim.target_port, "\n");
  }
  return out;
}

std::string claims(std::optional<const char*> host_ip, const PodAddresses& pod = kDual) {
  Mapping mapping{8080, 80, Protocol::kTcp, {}};
  if (host_ip) mapping.host_ip = Ip::parse(*host_ip);
  return text(portmap::claims_of({mapping}, pod));
}

cni::Result result_with(std::vector<cni::Address> ips) {
  cni::Result out;
  out.interfaces = {{.name = "veth0"}, {.name = "eth0", .sandbox = "/run/netns/pod"}};
  out.ips = std::move(ips);
  return out;
}

}  // namespace

TEST_CASE("hostIP chooses the families: none both, 0.0.0.0 and :: one, an address its own") {
  CHECK(claims({}) ==
        "tcp port 8080 of every IPv4 address -> 10.1.2.3 80\n"
        "tcp port 8080 of every IPv6 address -> fd00::3 80\n");
  CHECK(claims("0.0.0.0") == "tcp port 8080 of every IPv4 address -> 10.1.2.3 80\n");
  CHECK(claims("::") == "tcp port 8080 of every IPv6 address -> fd00::3 80\n");
  CHECK(claims("192.0.2.1") == "tcp port 8080 of 192.0.2.1 -> 10.1.2.3 80\n");
  CHECK(claims("2001:db8::1") == "tcp port 8080 of 2001:db8::1 -> fd00::3 80\n");
  CHECK(claims("2001:db8::1", {Cidr::parse("10.1.2.3/24"), {}}).empty());
}

TEST_CASE("the same mapping twice is one claim") {
  const Mapping mapping{8080, 80, Protocol::kTcp, {}};
  Mapping any = mapping;
  any.host_ip = Ip::parse("0.0.0.0");
  CHECK(portmap::claims_of({mapping, any, mapping}, kDual).size() == 2);
}

TEST_CASE("the pod's addresses are the first of each family on its interface") {
  const auto pod =
      portmap::pod_addresses(result_with({{*Cidr::parse("192.0.2.1/24"), {}, 0},  // the node's
                                          {*Cidr::parse("10.1.2.3/24"), {}, 1},
                                          {*Cidr::parse("10.1.2.4/24"), {}, 1},
                                          {*Cidr::parse("fd00::3/64"), {}, {}}}),
                             "eth0");
  CHECK(pod.v4 == Cidr::parse("10.1.2.3/24"));
  CHECK(pod.v6 == Cidr::parse("fd00::3/64"));
}

TEST_CASE("an index that leads nowhere says nothing against an address") {
  const auto pod =
      portmap::pod_addresses(result_with({{*Cidr::parse("10.1.2.3/24"), {}, 7}}), "eth0");
  CHECK(pod.v4 == Cidr::parse("10.1.2.3/24"));
  CHECK_FALSE(
      portmap::pod_addresses(result_with({{*Cidr::parse("10.1.2.3/24"), {}, 1}}), "eth1").v4);
}

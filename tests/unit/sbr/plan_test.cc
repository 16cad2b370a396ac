#include "plugins/sbr/plan.h"

#include <doctest/doctest.h>

namespace {

using netlink::Cidr;
using netlink::Ip;
using netlink::LinkRoute;

Cidr cidr(const char* text) { return Cidr::parse(text).value(); }

TEST_CASE("of IPv6 subnets those have no rule that no address of the result is in") {
  const std::vector<netlink::LinkAddress> present{
      {.cidr = cidr("10.1.2.3/24")},    {.cidr = cidr("10.9.9.9/24")},
      {.cidr = cidr("fd00:1::3/64")},   {.cidr = cidr("fd00:1::4/64")},
      {.cidr = cidr("2001:db8::3/64")}, {.cidr = cidr("fe80::3/64")}};
  const std::vector<cni::Address> own{{.cidr = cidr("10.1.2.3/24")},
                                      {.cidr = cidr("fd00:1::3/64")}};
  CHECK(sbr::subnets_without_rule(present, own) ==
        std::vector{cidr("2001:db8::/64"), cidr("fe80::/64")});
}

TEST_CASE("the main table needs routes over the link to neighbours of addresses without a rule") {
  const std::vector<Cidr> subnets{cidr("2001:db8::/64")};
  CHECK(sbr::is_needed_in_main(LinkRoute{.dst = cidr("2001:db8::/64")}, subnets));
  CHECK(sbr::is_needed_in_main(LinkRoute{.dst = cidr("fe80::/64")}, {}));
  CHECK(sbr::is_needed_in_main(LinkRoute{.dst = cidr("fe80::1/128")}, {}));
  CHECK_FALSE(sbr::is_needed_in_main(LinkRoute{.dst = cidr("fd00:1::/64")}, subnets));
  CHECK_FALSE(sbr::is_needed_in_main(LinkRoute{.dst = cidr("::/0")}, subnets));
  CHECK_FALSE(sbr::is_needed_in_main(LinkRoute{.dst = cidr("169.254.0.0/16")}, subnets));
  CHECK_FALSE(sbr::is_needed_in_main(
      LinkRoute{.dst = cidr("2001:db8::/64"), .gateway = Ip::parse("fe80::1")}, subnets));
}

}  // namespace

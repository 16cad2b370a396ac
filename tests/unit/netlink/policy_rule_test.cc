#include "netlink/route/policy_rule.h"

#include <doctest/doctest.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>

#include "netlink/route/route.h"

using netlink::Cidr;
using netlink::Family;
using netlink::Ip;
using netlink::PolicyRule;
using netlink::Reply;

namespace {

const PolicyRule kRule{.family = Family::kIpv4,
                       .from = Cidr{*Ip::parse("10.1.2.3"), 32},
                       .table = 1000,
                       .priority = 32765,
                       .protocol = 67};

PolicyRule shown(const netlink::RouteRequest& request) {
  return netlink::decode_policy_rule(Reply(request.message.bytes()));
}

}  // namespace

TEST_CASE("a rule is read as it was written") {
  CHECK(shown(add(kRule)) == kRule);
  PolicyRule v6 = kRule;
  v6.family = Family::kIpv6;
  v6.from = Cidr{*Ip::parse("fd00::1"), 128};
  CHECK(shown(remove(v6)) == v6);
  CHECK(shown(add(PolicyRule{.table = 254})) == PolicyRule{.table = 254});
}

TEST_CASE("a rule with another selector is not plain") {
  for (const auto attribute :
       {FRA_FWMARK, FRA_IIFNAME, FRA_OIFNAME, FRA_DST, FRA_SUPPRESS_PREFIXLEN}) {
    auto request = add(kRule);
    request.message.put_u32(static_cast<std::uint16_t>(attribute), 0);
    CHECK_FALSE_MESSAGE(shown(request).is_plain, attribute);
  }
  auto unlimited = add(kRule);
  unlimited.message.put_u32(FRA_SUPPRESS_PREFIXLEN, ~0U);  // as the kernel shows each rule
  CHECK(shown(unlimited).is_plain);
}

TEST_CASE("a copied route has all it had, in another table") {
  netlink::Link link{.index = 7, .name = "net1"};
  const netlink::LinkRoute route{.dst = Cidr{*Ip::parse("10.9.0.0"), 16},
                                 .gateway = Ip::parse("10.1.2.1"),
                                 .priority = 5,
                                 .mtu = 1400};
  const auto made = netlink::add(link, route);
  const auto copy = netlink::copy_route(Reply(made.message.bytes()));
  const auto again = netlink::add(copy, 1000);
  const auto seen = netlink::decode_route(Reply(again.message.bytes()));
  CHECK(seen.table == 1000);
  CHECK(seen.dst == route.dst);
  CHECK(seen.gateway == route.gateway);
  CHECK(seen.link == 7);
  CHECK(seen.priority == 5);
  const auto metrics = Reply(again.message.bytes()).attributes(sizeof(rtmsg)).nested(RTA_METRICS);
  CHECK(metrics.find(RTAX_MTU).u32() == 1400);
  CHECK(Reply(remove(copy).at(0).message.bytes()).type() == RTM_DELROUTE);
}

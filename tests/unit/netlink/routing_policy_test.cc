#include "netlink/route/routing_policy.h"

#include <doctest/doctest.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

using namespace netlink;

namespace {

const Ip kPod = *Ip::parse("10.1.2.3"), kRouter = *Ip::parse("192.0.2.2");
constexpr std::uint32_t kMain = 254;

PolicyStep lookup(std::uint32_t priority, std::uint32_t table) {
  return {.priority = priority, .table = table};
}

LinkRoute route(const char* dst, int link, std::uint32_t table = kMain) {
  return {.dst = *Cidr::parse(dst), .link = link, .table = table};
}

LinkRoute refusal(const char* dst, std::uint8_t type, std::uint32_t table = kMain) {
  LinkRoute out = route(dst, 0, table);
  out.type = type;
  return out;
}

}  // namespace

TEST_CASE("the longest prefix of the first table that has one decides") {
  const std::vector routes{route("0.0.0.0/0", 1), route("10.1.2.0/28", 2),
                           route("10.1.2.3/32", 3, 77)};
  const auto main = decide({lookup(100, kMain), lookup(200, 77)}, routes, {{kPod}});
  REQUIRE(main.route);
  CHECK(main.route->link == 2);
  CHECK(decide({lookup(100, 77), lookup(200, kMain)}, routes, {{kPod}}).route->link == 3);
}

TEST_CASE("a rule that refuses decides without a route, if it selects the packet") {
  PolicyStep prohibit{.action = PolicyStep::Action::kProhibit, .priority = 50, .in = "cni0"};
  const std::vector policy{prohibit, lookup(100, kMain)};
  const std::vector routes{route("0.0.0.0/0", 1)};
  const Decision refused = decide(policy, routes, {{kRouter}, "cni0"});
  CHECK_FALSE(refused.route);
  CHECK(refused.rule->str() == "from all iif cni0 prohibit");
  CHECK(decide(policy, routes, {{kRouter}, "veth1"}).route);
  CHECK(decide(policy, routes, {{kRouter}}).route);
}

TEST_CASE("marks select by their mask, and an inverted rule the others") {
  PolicyStep marked = lookup(50, 77);
  marked.mark = 7;
  marked.mask = ~0U;
  const std::vector routes{refusal("0.0.0.0/0", RTN_BLACKHOLE, 77), route("0.0.0.0/0", 1)};
  const PacketPath with{.destination = kRouter, .mark = 7}, without{.destination = kRouter};
  CHECK(decide({marked, lookup(100, kMain)}, routes, {with}).route->type == RTN_BLACKHOLE);
  CHECK(decide({marked, lookup(100, kMain)}, routes, {without}).route->link == 1);
  CHECK(marked.str() == "from all fwmark 0x7 lookup 77");
  marked.is_inverted = true;
  CHECK(decide({marked, lookup(100, kMain)}, routes, {without}).route->type == RTN_BLACKHOLE);
}

TEST_CASE("a rule of ports selects packets whose ports are known") {
  PolicyStep rule{.action = PolicyStep::Action::kBlackhole, .priority = 50};
  rule.ports = {80, 90};
  const std::vector policy{rule, lookup(100, kMain)};
  const std::vector routes{route("0.0.0.0/0", 1)};
  RoutedPacket packet{{kRouter}};
  CHECK(decide(policy, routes, packet).route);
  packet.source_port = 80;
  CHECK(decide(policy, routes, packet).route);
  packet.port = 90;
  CHECK_FALSE(decide(policy, routes, packet).route);
  packet.port = 91;
  CHECK(decide(policy, routes, packet).route);
  CHECK(rule.str() == "from all dport 80-90 blackhole");
  rule.ports.reset();
  rule.source_ports = {80, 80};
  CHECK(rule.str() == "from all sport 80 blackhole");
}

TEST_CASE("a route 'throw' sends the packet on, and is remembered") {
  const std::vector routes{refusal("10.1.2.3/32", RTN_THROW), route("0.0.0.0/0", 1)};
  const Decision nothing = decide({lookup(100, kMain)}, routes, {{kPod}});
  CHECK_FALSE(nothing.rule);
  REQUIRE(nothing.thrown);
  CHECK(nothing.thrown->dst.str() == "10.1.2.3/32");
}

TEST_CASE("goto leaves out the rules in between, and suppressed prefixes do not count") {
  PolicyStep skip{.action = PolicyStep::Action::kGoto, .priority = 10, .target = 90};
  PolicyStep drop{.action = PolicyStep::Action::kBlackhole, .priority = 50};
  PolicyStep narrow = lookup(95, kMain);
  narrow.suppress_prefix = 0;
  const std::vector routes{route("0.0.0.0/0", 1), route("0.0.0.0/0", 2, 77)};
  const Decision found = decide({skip, drop, narrow, lookup(100, 77)}, routes, {{kRouter}});
  REQUIRE(found.route);
  CHECK(found.route->link == 2);
  REQUIRE(found.jump);
  CHECK(found.jump->str() == "from all goto 90");
  REQUIRE(found.suppressor);
  CHECK(found.suppressor->str() == "from all lookup main suppress_prefixlength 0");
}

TEST_CASE("a rule is decoded with all that it selects by, and what is unknown is said") {
  fib_rule_hdr head{};
  head.family = AF_INET;
  head.src_len = 16;
  head.action = FR_ACT_UNREACHABLE;
  Message message(RTM_NEWRULE, 0, head);
  message.put(FRA_SRC, *Ip::parse("10.1.0.0"));
  message.put_u32(FRA_PRIORITY, 50);
  message.put_u8(FRA_IP_PROTO, 6);
  const PolicyStep known = decode_policy_step(Reply(message.bytes()));
  CHECK(known.str() == "from 10.1.0.0/16 ipproto tcp unreachable");
  CHECK(known.priority == 50);
  CHECK_FALSE(known.is_partly_known);
  message.put_u32(FRA_DPORT_RANGE, 80U << 16U | 80U);  // first and last
  const PolicyStep with_port = decode_policy_step(Reply(message.bytes()));
  CHECK(with_port.str() == "from 10.1.0.0/16 ipproto tcp dport 80 unreachable");
  CHECK_FALSE(with_port.is_partly_known);
  message.put_u8(FRA_L3MDEV, 1);
  CHECK(decode_policy_step(Reply(message.bytes())).is_partly_known);
}

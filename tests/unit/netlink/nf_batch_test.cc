#include <doctest/doctest.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "netlink/nf/batch.h"
#include "netlink/nf/match.h"
#include "netlink/types/error.h"
#include "tests/judge/judge.h"

using namespace netlink;
using namespace netlink::nf;

namespace {

Bytes from_hex(std::string_view hex) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(
        static_cast<std::uint8_t>(std::stoul(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

Cidr cidr(const char* text) { return *Cidr::parse(text); }

Rule masquerade_rule(const char* source, const char* subnet) {
  Rule rule{
      {TableFamily::kInet, "t", "c"}, l3_protocol(cidr(source).ip.family()), "abc-def, net: n"};
  for (const Exprs& more : {address(Side::kSource, Compare::kEqual, cidr(source)),
                            address(Side::kDestination, Compare::kNotEqual, cidr(subnet))}) {
    rule.exprs.insert(rule.exprs.end(), more.begin(), more.end());
  }
  rule.exprs.emplace_back(Masq{});
  return rule;
}

Rule reread(const Rule& rule) {
  const Message message = encode(rule).front();
  constexpr std::size_t kHeaders = 20;  // nlmsghdr and nfgenmsg
  return decode_rule(rule.chain.family, Attributes(message.bytes().subspan(kHeaders)));
}

// NFT_MSG_GETRULE's answers of Linux 6.18.44, without their headers.
// Made by nft 1.0.6: ip saddr 10.1.2.3 ip daddr != 10.1.0.0/20 masquerade comment "abc-def, net: n"
constexpr std::string_view kNftRule =
    "060001007400000006000200630000000c00030000000000000000027401040024000100090001006d657461"
    "0000000014000200080002000000000f08000100000000012c00010008000100636d70002000020008000100"
    "0000000108000200000000000c0003000500010002000000340001000c0001007061796c6f61640024000200"
    "08000100000000010800020000000001080003000000000c08000400000000042c00010008000100636d7000"
    "20000200080001000000000108000200000000000c000300080001000a010203340001000c0001007061796c"
    "6f6164002400020008000100000000010800020000000001080003000000001008000400000000044c000100"
    "0c00010062697477697365003c00020008000100000000010800020000000001080003000000000408000600"
    "000000000c00040008000100fffff0000c00050008000100000000002c00010008000100636d700020000200"
    "080001000000000108000200000000010c000300080001000a01000014000100090001006d61737100000000"
    "040002001600070000106162632d6465662c206e65743a206e000000";

// Made by iptables-nft 1.8.9: -A POSTROUTING -s 10.7.1.3/32 -m comment --comment
// "name: \"mynet\" id: \"abc123\"" -j CNI-aaaabbbbccccddddeeeeffff
constexpr std::string_view kIptablesJump =
    "080001006e61740010000200504f5354524f5554494e47000c00030000000000000000051002040034000100"
    "0c0001007061796c6f6164002400020008000100000000010800020000000001080003000000000c08000400"
    "000000042c00010008000100636d700020000200080001000000000108000200000000000c00030008000100"
    "0a0701032c0101000a0001006d617463680000001c0102000c000100636f6d6d656e74000800020000000000"
    "040103006e616d653a20226d796e6574222069643a2022616263313233220000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000000000000000000000000000000000000000000000000000000000000000000000002c000100"
    "0c000100636f756e746572001c0002000c00010000000000000000000c000200000000000000000054000100"
    "0e000100696d6d656469617465000000400002000800010000000000340002003000020008000100fffffffd"
    "21000200434e492d61616161626262626363636364646464656565656666666600000000";

}  // namespace

// The texts below are what nft 1.0.6 --debug=netlink prints for the rules in nft's language.

TEST_CASE("ip saddr 10.1.2.3 ip daddr != 10.1.2.0/24 masquerade") {
  CHECK(text(masquerade_rule("10.1.2.3/32", "10.1.2.0/24")) == R"(inet t c
  [ meta load nfproto => reg 1 ]
  [ cmp eq reg 1 0x00000002 ]
  [ payload load 4b @ network header + 12 => reg 1 ]
  [ cmp eq reg 1 0x0302010a ]
  [ payload load 3b @ network header + 16 => reg 1 ]
  [ cmp neq reg 1 0x0002010a ]
  [ masq ]
  userdata = { \x00\x10abc-def, net: n\x00 }
)");
}

TEST_CASE("ip6 saddr fd00::3 ip6 daddr != fd00::/61 masquerade") {
  CHECK(text(masquerade_rule("fd00::3/128", "fd00::/61")) == R"(inet t c
  [ meta load nfproto => reg 1 ]
  [ cmp eq reg 1 0x0000000a ]
  [ payload load 16b @ network header + 8 => reg 1 ]
  [ cmp eq reg 1 0x000000fd 0x00000000 0x00000000 0x03000000 ]
  [ payload load 16b @ network header + 24 => reg 1 ]
  [ bitwise reg 1 = ( reg 1 & 0xffffffff 0xf8ffffff 0x00000000 0x00000000 ) ^ 0x00000000 0x00000000 0x00000000 0x00000000 ]
  [ cmp neq reg 1 0x000000fd 0x00000000 0x00000000 0x00000000 ]
  [ masq ]
  userdata = { \x00\x10abc-def, net: n\x00 }
)");
}

TEST_CASE("ip daddr != 0.0.0.0/0: a prefix of no bits is masked, not left out") {
  const Exprs exprs = address(Side::kDestination, Compare::kNotEqual, cidr("10.1.2.3/0"));
  REQUIRE(exprs.size() == 3);
  CHECK(text(exprs[1]) == "[ bitwise reg 1 = ( reg 1 & 0x00000000 ) ^ 0x00000000 ]");
  CHECK(text(exprs[2]) == "[ cmp neq reg 1 0x00000000 ]");
}

TEST_CASE("iifname, ether saddr and verdicts") {
  const Exprs link = iifname("veth1234");
  CHECK(text(link[0]) == "[ meta load iifname => reg 1 ]");
  CHECK(text(link[1]) == "[ cmp eq reg 1 0x68746576 0x34333231 0x00000000 0x00000000 ]");
  const Exprs mac = ether_source(*Mac::parse("02:00:00:00:00:01"));
  CHECK(text(mac[0]) == "[ payload load 6b @ link header + 6 => reg 1 ]");
  CHECK(text(mac[1]) == "[ cmp eq reg 1 0x00000002 0x00000100 ]");
  CHECK(text(jump_to("there")) == "[ immediate reg 0 jump -> there ]");
  CHECK(text(go_to("there")) == "[ immediate reg 0 goto -> there ]");
  CHECK(text(return_verdict()) == "[ immediate reg 0 return ]");
  CHECK(text(drop()) == "[ immediate reg 0 drop ]");
  CHECK(text(accept()) == "[ immediate reg 0 accept ]");
  CHECK_THROWS_AS(iifname("a-name-of-16-byt"), std::invalid_argument);
}

TEST_CASE("what a published port needs is printed as nft prints it") {
  CHECK(text(Lookup{"m", 1, 1}) == "[ lookup reg 1 set m dreg 1 ]");
  CHECK(text(Lookup{"s", 1, {}, true}) == "[ lookup reg 1 set s 0x1 ]");
  CHECK(text(Nat{NFT_NAT_DNAT, NFPROTO_IPV4, 1, 9}) ==
        "[ nat dnat ip addr_min reg 1 proto_min reg 9 ]");
  CHECK(text(Fib{NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_DADDR}) == "[ fib daddr type => reg 1 ]");
  CHECK(text(Immediate{{10, 0, 0, 2}}) == "[ immediate reg 1 0x0200000a ]");
  CHECK(text(Meta{NFT_META_MARK, 1, true}) == "[ meta set mark with reg 1 ]");
  CHECK(text(Ct{NFT_CT_STATUS}) == "[ ct load status => reg 1 ]");
  CHECK(text(Masq{0x10}) == "[ masq flags 0x10 ]");
}

TEST_CASE("a batch prints what it will do, in order") {
  const ChainId chain{TableFamily::kInet, "t", "c"};
  Batch batch;
  batch.add(Table{TableFamily::kInet, "t", "a table"});
  batch.add(Chain{chain, Hook{"nat", NF_INET_POST_ROUTING, 100, NF_ACCEPT}, "a chain"});
  batch.flush(chain).add(Rule{chain, {go_to("d")}});
  batch.remove(Rule{chain, {}, {}, 7}).remove(chain);
  CHECK(batch.dump() == R"(add table inet t comment "a table"
add chain inet t c type nat hook 4 prio 100 policy accept comment "a chain"
flush chain inet t c
inet t c
  [ immediate reg 0 goto -> d ]

delete rule inet t c handle 7
delete chain inet t c
)");
  CHECK(describe(batch.changes()[3]) == "add rule 'inet t c'");
}

TEST_CASE("every expression reads back as it was written") {
  Rule rule = masquerade_rule("10.1.2.3/32", "10.1.0.0/20");
  for (const Expr& expr : {Expr(Counter{}), Expr(Lookup{"m", 1, 9}), Expr(Lookup{"s", 1, {}, true}),
                           Expr(Nat{NFT_NAT_DNAT, NFPROTO_IPV6, 1, 2, 4}), Expr(Masq{0x10}),
                           Expr(Fib{NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_DADDR, 3}),
                           Expr(Meta{NFT_META_MARK, 1, true}), Expr(Ct{NFT_CT_STATUS, 2}),
                           Expr(Immediate{{1, 2, 3, 4}, 2}), Expr(jump_to("x")), Expr(drop())}) {
    rule.exprs.push_back(expr);
  }
  CHECK(reread(rule) == rule);
}

TEST_CASE("a rule that nft made is the rule that we make") {
  const Bytes bytes = from_hex(kNftRule);
  const Rule seen = decode_rule(TableFamily::kInet, Attributes(bytes));
  const Rule ours = masquerade_rule("10.1.2.3/32", "10.1.0.0/20");
  CHECK(seen.exprs == ours.exprs);
  CHECK(seen.comment == ours.comment);
  CHECK(seen.chain == ours.chain);
  CHECK(seen.handle == 2);
  CHECK(address_of(seen.exprs, Side::kSource, Family::kIpv4) == cidr("10.1.2.3/32"));
}

TEST_CASE("a jump that iptables made: source, comment, target") {
  const Bytes bytes = from_hex(kIptablesJump);
  const Rule seen = decode_rule(TableFamily::kIp, Attributes(bytes));
  CHECK(seen.chain.str() == "ip nat POSTROUTING");
  CHECK(address_of(seen.exprs, Side::kSource, Family::kIpv4) == cidr("10.7.1.3/32"));
  CHECK(!address_of(seen.exprs, Side::kDestination, Family::kIpv4));
  CHECK(xt_comment_of(seen.exprs) == "name: \"mynet\" id: \"abc123\"");
  CHECK(target_of(seen.exprs) == "CNI-aaaabbbbccccddddeeeeffff");
}

TEST_CASE("addresses are read in the forms for whole bytes and for bits") {
  for (const char* const text : {"10.1.2.3/32", "10.1.2.0/24", "10.1.0.0/20", "0.0.0.0/0",
                                 "fd00::3/128", "fd00::/64", "fd00::/61"}) {
    const Exprs exprs = address(Side::kSource, Compare::kEqual, cidr(text));
    CHECK(address_of(exprs, Side::kSource, cidr(text).ip.family()) == cidr(text));
  }
  const Exprs inverted = address(Side::kSource, Compare::kNotEqual, cidr("10.1.2.3/32"));
  CHECK(!address_of(inverted, Side::kSource, Family::kIpv4));
}

TEST_CASE("a rule shows its own expressions, and neither fewer nor more") {
  const Rule rule = masquerade_rule("10.1.2.3/32", "10.1.0.0/20");
  const Message message = encode(rule).front();
  const Attributes seen(message.bytes().subspan(20));
  CHECK(shows(seen, rule.exprs));
  Exprs more = rule.exprs;
  more.emplace_back(Masq{});
  CHECK_FALSE(shows(seen, more));
  const Exprs fewer(rule.exprs.begin(), rule.exprs.end() - 1);
  CHECK_FALSE(shows(seen, fewer));
  CHECK_FALSE(shows(seen, masquerade_rule("10.1.2.4/32", "10.1.0.0/20").exprs));
}

TEST_CASE("a chain shows its own rules, in order, and neither fewer nor more") {
  const Rule one = masquerade_rule("10.1.2.3/32", "10.1.0.0/20");
  const Rule two = masquerade_rule("10.1.2.4/32", "10.1.0.0/20");
  Rule other = one;
  other.chain.chain = "d";
  const auto bytes = [](const Rule& rule) {
    const Message message = encode(rule).front();
    const View attributes = message.bytes().subspan(20);
    return Bytes(attributes.begin(), attributes.end());
  };
  const std::vector<Bytes> seen{bytes(one), bytes(other), bytes(two)};
  CHECK(shows_chain(seen, "c", {one.exprs, two.exprs}));
  CHECK(shows_chain(seen, "d", {other.exprs}));
  CHECK(shows_chain(seen, "e", {}));
  CHECK_FALSE(shows_chain(seen, "c", {}));
  CHECK_FALSE(shows_chain(seen, "c", {two.exprs, one.exprs}));
  CHECK_FALSE(shows_chain(seen, "c", {one.exprs}));
  CHECK_FALSE(shows_chain(seen, "c", {one.exprs, two.exprs, two.exprs}));
  CHECK_FALSE(shows_chain(seen, "e", {one.exprs}));
  CHECK_FALSE(shows_chain({}, "c", {one.exprs}));
}

TEST_CASE("cut or altered bytes are read without going astray") {
  const judge::AnyBytes harmless;
  for (const std::string_view hex : {kNftRule, kIptablesJump}) {
    const Bytes whole = from_hex(hex);
    const Exprs exprs = decode_rule(TableFamily::kIp, Attributes(whole)).exprs;
    CHECK(shows(Attributes(whole), exprs));
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      const Rule rule = decode_rule(TableFamily::kIp, Attributes(cut));
      CHECK(rule.exprs.size() <= 8);
      Bytes altered = whole;
      altered[size] = 0xff;
      const Rule odd = decode_rule(TableFamily::kIp, Attributes(altered));
      CHECK(shows(Attributes(cut), exprs) == (rule.exprs == exprs));
      CHECK(shows(Attributes(altered), exprs) == (odd.exprs == exprs));
      static_cast<void>(address_of(odd.exprs, Side::kSource, Family::kIpv4));
      static_cast<void>(address_of(odd.exprs, Side::kSource, Family::kIpv6));
      static_cast<void>(text(odd));
    }
  }
}

TEST_CASE("a message too large for its buffer is refused, not written") {
  Message message = nf_tables_message(NFT_MSG_NEWRULE, 0, TableFamily::kIp);
  CHECK_THROWS_AS(message.put(1, std::string(70000, 'x')), Error);
  CHECK(message.bytes().size() == 20);
  CHECK_THROWS_AS(encode(Rule{{}, {}, std::string(300, 'x')}), Error);
  CHECK_THROWS_AS(encode(Rule{{}, {Unknown{"quota"}}}), std::invalid_argument);
}

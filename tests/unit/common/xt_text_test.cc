#include "plugins/common/xt_text.h"

#include <doctest/doctest.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>

using namespace netlink::nf;
using plugins::xt::text_of;

namespace {

std::string text_of_exprs(Exprs exprs) {
  return text_of({.chain = {TableFamily::kIp, "nat", "c"}, .exprs = std::move(exprs)});
}

std::string text_of_exprs6(Exprs exprs) {
  return text_of({.chain = {TableFamily::kIp6, "nat", "c"}, .exprs = std::move(exprs)});
}

Exprs to(Bytes address, std::uint32_t port_reg) {
  return {Immediate{std::move(address), 1}, Immediate{{0x1F, 0x90}, 2},
          Nat{.type = NFT_NAT_DNAT, .address_reg = 1, .port_reg = port_reg}};
}

// The protocol as a field of the IPv4 header, which iptables-nft compared with before 1.8.3.
Exprs protocol_field(Bytes data) {
  return {Payload{NFT_PAYLOAD_NETWORK_HEADER, 9, 1}, Cmp{NFT_CMP_EQ, std::move(data)}};
}

}  // namespace

TEST_CASE("a protocol that is compared with nothing is unknown") {
  CHECK(text_of_exprs(protocol_field({6})) == "-p tcp");
  CHECK(text_of_exprs(protocol_field({})) == "?payload");
  CHECK(text_of_exprs(protocol_field({6, 6})) == "?payload");
}

TEST_CASE("a protocol without a name is its number") {
  CHECK(text_of_exprs(protocol_field({132})) == "-p sctp");
  CHECK(text_of_exprs(protocol_field({47})) == "-p 47");
}

TEST_CASE("a new destination has its port after it, an IPv6 address then brackets") {
  const Bytes six{0xFD, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  CHECK(text_of_exprs(to({10, 1, 0, 2}, 2)) == "-j DNAT --to-destination 10.1.0.2:8080");
  CHECK(text_of_exprs(to({10, 1, 0, 2}, 0)) == "-j DNAT --to-destination 10.1.0.2");
  CHECK(text_of_exprs6(to(six, 2)) == "-j DNAT --to-destination [fd00:1::2]:8080");
  CHECK(text_of_exprs6(to(six, 0)) == "-j DNAT --to-destination fd00:1::2");
  CHECK(text_of_exprs6(to({10, 1, 0, 2}, 2)) == "?nat");  // not an address of the family
  CHECK(text_of_exprs({Immediate{{10, 1, 0, 2}, 1}, Nat{.type = NFT_NAT_SNAT}}) == "?nat");
}

TEST_CASE("of kinds of addresses only a local destination has words") {
  const auto kind = [](std::uint32_t flags, unsigned char type) {
    return text_of_exprs({Fib{NFT_FIB_RESULT_ADDRTYPE, flags}, Cmp{NFT_CMP_EQ, {type, 0, 0, 0}}});
  };
  CHECK(kind(NFTA_FIB_F_DADDR, RTN_LOCAL) == "-m addrtype --dst-type LOCAL");
  CHECK(kind(NFTA_FIB_F_DADDR, RTN_UNICAST) == "?fib");
  CHECK(kind(NFTA_FIB_F_SADDR, RTN_LOCAL) == "?fib");
  CHECK(text_of_exprs({Fib{NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_DADDR}}) == "?fib");
}

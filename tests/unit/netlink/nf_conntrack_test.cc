#include <doctest/doctest.h>

#include "netlink/nf/conntrack.h"

using namespace netlink;
using namespace netlink::nf;

namespace {

constexpr std::size_t kHeaders = 20;  // nlmsghdr and nfgenmsg

Bytes from_hex(std::string_view hex) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(
        static_cast<std::uint8_t>(std::stoul(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

Bytes body(const Message& message) {
  const auto bytes = message.bytes().subspan(kHeaders);
  return {bytes.begin(), bytes.end()};
}

// 17 10.9.0.2:4000 -> 10.9.0.1:53, answered by 10.9.5.5:5353; zone 7, id 0x01020304, DST_NAT.
constexpr std::string_view kNew =
    "3400018014000180080001000a090002080002000a0900011c0002800500010011000000"
    "060002000fa0000006000300003500003400028014000180080001000a090505080002000a090002"
    "1c00028005000100110000000600020014e90000060003000fa00000"
    "080003000000002808000c00010203040600120000070000";

const Flow kFlow{.protocol = 17,
                 .original = {*Ip::parse("10.9.0.2"), *Ip::parse("10.9.0.1"), 4000, 53},
                 .reply = {*Ip::parse("10.9.5.5"), *Ip::parse("10.9.0.2"), 5353, 4000},
                 .id = 0x01020304,
                 .zone = 7};

}  // namespace

TEST_CASE("a connection is read with both of its directions") {
  const Bytes bytes = from_hex(kNew);
  CHECK(decode_flow(Attributes(bytes)) == kFlow);
}

TEST_CASE("odd bytes are harmless as connections") {
  const Bytes whole = from_hex(kNew);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at));
    if (at < 0x68) CHECK(!decode_flow(Attributes(cut)));
    for (const std::uint8_t odd : Bytes{0, 1, 0xff}) {
      Bytes bent = whole;
      bent[at] = odd;
      if (const auto flow = decode_flow(Attributes(bent))) CHECK(!flow->str().empty());
    }
  }
}

TEST_CASE("a removal has the whole tuple, the id and the zone") {
  CHECK(body(encode_removal(kFlow)) ==
        from_hex("3400018014000180080001000a090002080002000a0900011c0002800500010011000000"
                 "060002000fa00000060003000035000008000c00010203040600120000070000"));
  Flow usual = kFlow;
  usual.zone = 0;
  CHECK(body(encode_removal(usual)).size() == body(encode_removal(kFlow)).size() - 8);
  usual.original_zone = 7;
  CHECK(body(encode_removal(usual)).size() == body(encode_removal(kFlow)).size());
}

TEST_CASE("a filter says which parts of the tuples count") {
  const FlowFilter all{Family::kIpv4, 17, 53, Ip::parse("10.9.0.1"), Ip::parse("10.9.5.5")};
  CHECK(body(encode_flow_query(all, true)) ==
        from_hex("240001800c000180080002000a0900011400028005000100110000000600030000350000"
                 "100002800c000180080001000a090505"
                 "14001980080001002a0000000800020001000000"));
  CHECK(body(encode_flow_query(all, false)).empty());
  // The kernel gets IPv6 addresses wrong.
  const FlowFilter v6{Family::kIpv6, 17, 53, Ip::parse("fd09::1"), Ip::parse("fd09::2")};
  CHECK(body(encode_flow_query(v6, true)) ==
        from_hex("1800018014000280050001001100000006000300003500000c0019800800010028000000"));
}

TEST_CASE("a filter matches what it names") {
  FlowFilter filter{.family = Family::kIpv4, .protocol = 17};
  CHECK(filter.matches(kFlow));
  filter.original_port = 53;
  filter.original_destination = Ip::parse("10.9.0.1");
  filter.reply_source = Ip::parse("10.9.5.5");
  CHECK(filter.matches(kFlow));
  FlowFilter other = filter;
  other.original_port = 54;
  CHECK(!other.matches(kFlow));
  other = filter;
  other.original_destination = Ip::parse("10.9.0.2");
  CHECK(!other.matches(kFlow));
  other = filter;
  other.reply_source = Ip::parse("10.9.0.1");
  CHECK(!other.matches(kFlow));
  other = filter;
  other.protocol = 6;
  CHECK(!other.matches(kFlow));
  other = {.family = Family::kIpv6, .protocol = 17};
  CHECK(!other.matches(kFlow));
}

#include <doctest/doctest.h>
#include <netinet/in.h>

#include <tuple>

#include "cnitool/probe/outside.h"

using namespace tool::probe;

namespace {

const Mark kProbeMark{.cookie = 0xdeadbeef, .id = 0x1234, .port = 11'000};

// 0, if the checksum behind a pseudo header is right.
std::uint16_t remainder_of(const Packet& packet, const Bytes& segment) {
  Bytes all;
  const auto put = [&](const Ip& ip) { all.insert(all.end(), ip.data(), ip.data() + ip.size()); };
  put(*packet.source);
  put(packet.target);
  all.insert(all.end(), {0, packet.protocol(), static_cast<std::uint8_t>(segment.size() >> 8),
                         static_cast<std::uint8_t>(segment.size())});
  all.insert(all.end(), segment.begin(), segment.end());
  return checksum(all);
}

}  // namespace

TEST_CASE("a packet of a host beyond the node has headers and checksums of both families") {
  for (const auto& [from, to, header] :
       {std::tuple("203.0.113.7", "192.0.2.1", 20UL), {"2001:db8::7", "2001:db8::1", 40UL}}) {
    for (const Kind kind : {Kind::kEcho, Kind::kSyn, Kind::kDns}) {
      const Packet packet{.kind = kind,
                          .source = Ip::parse(from),
                          .target = *Ip::parse(to),
                          .port = 80,
                          .number = 3};
      const Bytes bytes = ip_packet(packet, kProbeMark);
      REQUIRE(bytes.size() > header);
      const Bytes segment(bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end());
      if (packet.protocol() == IPPROTO_ICMP) {
        CHECK(checksum(segment) == 0);
      } else {
        CHECK(remainder_of(packet, segment) == 0);
      }
      if (header == 20) {
        CHECK(checksum({bytes.data(), header}) == 0);
        CHECK((bytes[2] << 8 | bytes[3]) == static_cast<int>(bytes.size()));
      } else {
        CHECK((bytes[4] << 8 | bytes[5]) == static_cast<int>(segment.size()));
      }
      const auto seen = seen_in(kProbeMark, {bytes.data(), header}, segment);
      REQUIRE(seen);
      CHECK(seen->number == 3);
    }
  }
}

TEST_CASE("an IPv4 packet of a size has that size, and asks not to be fragmented") {
  const Bytes bytes =
      ip_packet({.source = Ip::parse("10.1.2.3"), .target = *Ip::parse("10.1.2.1"), .size = 1500},
                kProbeMark);
  CHECK(bytes.size() == 1500);
  CHECK(bytes[6] == 0x40);
}

#include "netlink/address_claim.h"

#include <doctest/doctest.h>

#include <random>

using netlink::arp_probe;
using netlink::Bytes;
using netlink::claim_in;
using netlink::Ip;
using netlink::Mac;
using netlink::NeighbourClaim;

namespace {

const Mac kOwn{{0x02, 0, 0, 0, 0, 1}};
const Mac kOther{{0x02, 0, 0, 0, 0, 2}};
const Mac kProxy{{0x02, 0, 0, 0, 0, 3}};
const Ip kV4 = *Ip::parse("10.1.2.9");
const Ip kV6 = *Ip::parse("fd00:1:2::9");

void append(Bytes& out, std::initializer_list<unsigned> bytes) {
  for (const unsigned byte : bytes) out.push_back(static_cast<std::uint8_t>(byte));
}
void append(Bytes& out, const Mac& mac) {
  out.insert(out.end(), mac.bytes.begin(), mac.bytes.end());
}
void append(Bytes& out, const Ip& ip) { out.insert(out.end(), ip.data(), ip.data() + ip.size()); }

struct Arp {
  unsigned operation;
  Mac sender;
  Ip from, to;
};

// RFC 826.
Bytes frame_of(const Arp& arp) {
  Bytes out;
  append(out, Mac{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}});
  append(out, arp.sender);
  append(out, {0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, arp.operation});
  append(out, arp.sender);
  append(out, arp.from);
  append(out, Mac{});
  append(out, arp.to);
  return out;
}

struct Discovery {
  unsigned type;  // 135: solicitation, 136: advertisement
  Ip from;
  Bytes options = {};
  unsigned hop_limit = 255;
};

// RFC 4861, sections 4.3 and 4.4.
Bytes frame_of(const Discovery& discovery) {
  Bytes out;
  append(out, Mac{{0x33, 0x33, 0, 0, 0, 1}});
  append(out, kOther);
  const auto length = static_cast<unsigned>(24 + discovery.options.size());
  append(out, {0x86, 0xdd, 0x60, 0, 0, 0, 0, length, 58, discovery.hop_limit});
  append(out, discovery.from);
  append(out, *Ip::parse("ff02::1"));
  append(out, {discovery.type, 0, 0, 0, 0x20, 0, 0, 0});
  append(out, kV6);
  out.insert(out.end(), discovery.options.begin(), discovery.options.end());
  return out;
}

}  // namespace

TEST_CASE("an ARP probe is a broadcast request that names no sender") {
  CHECK(arp_probe(kOwn, kV4) == frame_of(Arp{1, kOwn, Ip::any(netlink::Family::kIpv4), kV4}));
  CHECK(arp_probe(kOwn, kV4).size() == 42);
}

// With its pseudo-header, the sum of all is 0xffff (RFC 1071).
static std::uint32_t sum_with_header(const Bytes& frame) {
  std::uint32_t sum = static_cast<std::uint32_t>(frame.size()) - 54 + 58;
  for (std::size_t i = 22; i < frame.size(); i += 2) {
    sum += static_cast<std::uint32_t>(frame[i] << 8 | frame[i + 1]);
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

TEST_CASE("a solicitation of a host that has an address names it and its MAC address") {
  const Ip own = *Ip::parse("fe80::7");
  const Bytes frame = netlink::solicitation(kOwn, own, kV6);
  CHECK(claim_in(frame) == std::nullopt);
  CHECK(Ip::from_bytes(&frame[22], 16) == own);
  CHECK(Ip::from_bytes(&frame[62], 16) == kV6);
  CHECK(Bytes(frame.begin() + 78, frame.begin() + 80) == Bytes{1, 1});
  CHECK(std::equal(frame.begin() + 80, frame.end(), kOwn.bytes.begin(), kOwn.bytes.end()));
  CHECK(sum_with_header(frame) == 0xffff);
}

TEST_CASE("a solicitation probe claims the address that it asks for, at its solicited-node group") {
  const Bytes frame = netlink::solicitation_probe(kOwn, kV6);
  CHECK(claim_in(frame) == NeighbourClaim{kV6, kOwn});
  CHECK(Bytes(frame.begin(), frame.begin() + 6) == Bytes{0x33, 0x33, 0xff, 0, 0, 9});
  CHECK(Ip::from_bytes(&frame[38], 16) == *Ip::parse("ff02::1:ff00:9"));
  CHECK(sum_with_header(frame) == 0xffff);
}

TEST_CASE("whoever sends ARP from an address has it, whether it asks or answers") {
  for (const unsigned operation : {1U, 2U}) {
    CHECK(claim_in(frame_of(Arp{operation, kOther, kV4, *Ip::parse("10.1.2.1")})) ==
          NeighbourClaim{kV4, kOther});
  }
}

TEST_CASE("a probe claims the address that it asks for") {
  CHECK(claim_in(arp_probe(kOther, kV4)) == NeighbourClaim{kV4, kOther});
}

TEST_CASE("an advertisement claims its target, for the MAC address that it names") {
  CHECK(claim_in(frame_of(Discovery{136, kV6})) == NeighbourClaim{kV6, kOther});
  Bytes options{14, 1, 1, 2, 3, 4, 5, 6, 2, 1};  // a nonce, then the target link-layer address
  append(options, kProxy);
  CHECK(claim_in(frame_of(Discovery{136, kV6, options})) == NeighbourClaim{kV6, kProxy});
  CHECK(claim_in(frame_of(Discovery{136, kV6, {2, 0, 1, 2, 3, 4, 5, 6}})) ==
        NeighbourClaim{kV6, kOther});
}

TEST_CASE("a solicitation claims its target only in duplicate address detection") {
  CHECK(claim_in(frame_of(Discovery{135, Ip::any(netlink::Family::kIpv6)})) ==
        NeighbourClaim{kV6, kOther});
  CHECK_FALSE(claim_in(frame_of(Discovery{135, *Ip::parse("fe80::1")})));
}

TEST_CASE("what a router has passed on, and what is no such message, claims nothing") {
  CHECK_FALSE(claim_in(frame_of(Discovery{136, kV6, {}, 254})));
  CHECK_FALSE(claim_in(frame_of(Discovery{134, kV6})));
  CHECK_FALSE(claim_in({}));
  Bytes tagged = arp_probe(kOther, kV4);
  tagged[12] = 0x81;
  CHECK_FALSE(claim_in(tagged));
  Bytes of_tokens = arp_probe(kOther, kV4);
  of_tokens[15] = 6;  // ARPHRD_IEEE802
  CHECK_FALSE(claim_in(of_tokens));
}

TEST_CASE("a frame that is cut off claims nothing, and any bytes are harmless") {
  Bytes options{2, 1};
  append(options, kProxy);
  std::mt19937 random(1);
  for (const Bytes& whole : {arp_probe(kOther, kV4), frame_of(Discovery{136, kV6, options})}) {
    const std::size_t least = whole.size() - (whole.size() > 42 ? options.size() : 0);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      CHECK(claim_in(cut).has_value() == (size >= least));
    }
    for (int round = 0; round < 20000; ++round) {
      Bytes copy = whole;
      for (int changes = 0; changes < 4; ++changes) {
        copy[random() % copy.size()] = static_cast<std::uint8_t>(random());
      }
      copy.shrink_to_fit();
      claim_in(copy);
    }
  }
}

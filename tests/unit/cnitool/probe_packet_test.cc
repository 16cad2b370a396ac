#include <doctest/doctest.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>

#include <algorithm>
#include <random>

#include "cnitool/probe/packet.h"

using namespace tool::probe;
using netlink::Ip;

namespace {

const Mark kMark{.cookie = 0xdeadbeef, .id = 0x1234, .port = 11'000};
const Ip kPod = *Ip::parse("10.1.2.3"), kOther = *Ip::parse("10.1.2.4");

// An IPv4 packet around it, without a checksum.
Bytes in_v4(std::uint8_t protocol, const Ip& from, const Ip& to, const Bytes& payload) {
  Bytes out{0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0};
  out.insert(out.end(), from.data(), from.data() + 4);
  out.insert(out.end(), to.data(), to.data() + 4);
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

Bytes echo(std::uint16_t number = 7) {
  return payload_of({.source = kPod, .target = kOther, .number = number, .token = 77}, kMark);
}

Bytes syn(std::uint16_t number = 7) {
  return payload_of(
      {.kind = Kind::kSyn, .source = kPod, .target = kOther, .port = 80, .number = number}, kMark);
}

Bytes answer_to_syn(std::uint8_t flags) {
  Bytes out = syn();
  std::swap_ranges(out.begin(), out.begin() + 2, out.begin() + 2);
  const Bytes acknowledged{0xde, 0xad, 0xbe, 0xf0};
  std::ranges::fill(out.begin() + 4, out.begin() + 8, std::uint8_t{9});
  std::ranges::copy(acknowledged, out.begin() + 8);
  out[13] = flags;
  return out;
}

}  // namespace

TEST_CASE("an echo has a right checksum, the mark and the size that was asked for") {
  const Bytes bytes = echo();
  CHECK(bytes.size() == 16);
  CHECK(bytes[0] == ICMP_ECHO);
  CHECK(checksum(bytes) == 0);  // RFC 1071: the sum over it and its checksum
  CHECK(payload_of({.source = kPod, .target = kOther, .size = 1500}, kMark).size() == 1480);
}

TEST_CASE("an empty datagram is known by its size and its port") {
  const Packet packet{.kind = Kind::kDatagram, .source = kPod, .target = kOther, .port = 53};
  CHECK(payload_of(packet, kMark).empty());
  const std::uint8_t port = 7;
  const Bytes sent{static_cast<std::uint8_t>(kMark.port >> 8),
                   static_cast<std::uint8_t>((kMark.port & 0xff) + port),
                   0,
                   53,
                   0,
                   8,
                   0,
                   0};
  const auto seen = seen_in(kMark, in_v4(IPPROTO_UDP, kPod, kOther, {}), sent);
  REQUIRE(seen);
  CHECK(seen->number == port);
  CHECK_FALSE(seen->is_answer);
  Bytes larger = sent;
  larger[5] = 9;
  CHECK_FALSE(seen_in(kMark, in_v4(IPPROTO_UDP, kPod, kOther, {}), larger));
  Bytes lower = sent;
  lower[0] = 1;
  CHECK_FALSE(seen_in(kMark, in_v4(IPPROTO_UDP, kPod, kOther, {}), lower));
  Bytes error{ICMP_DEST_UNREACH, ICMP_PORT_UNREACH, 0, 0, 0, 0, 0, 0};
  const Bytes inner = in_v4(IPPROTO_UDP, kPod, kOther, sent);
  error.insert(error.end(), inner.begin(), inner.end());
  const auto answer =
      received_by(kMark, IPPROTO_ICMP, kOther, in_v4(IPPROTO_ICMP, kOther, kPod, error));
  REQUIRE(answer);
  CHECK(answer->number == port);
  CHECK(answer->answer.says_no_port());
}

TEST_CASE("the checksum of a segment is over the pseudo header, too") {
  const Bytes bytes = syn();
  Bytes pseudo(kPod.data(), kPod.data() + 4);
  pseudo.insert(pseudo.end(), kOther.data(), kOther.data() + 4);
  pseudo.insert(pseudo.end(), {0, IPPROTO_TCP, 0, static_cast<std::uint8_t>(bytes.size())});
  pseudo.insert(pseudo.end(), bytes.begin(), bytes.end());
  CHECK(checksum(pseudo) == 0);
}

TEST_CASE("a reply of the run is known by its ID and cookie") {
  Bytes reply = echo();
  reply[0] = ICMP_ECHOREPLY;
  const auto read = [&](const Mark& mark) {
    return received_by(mark, IPPROTO_ICMP, kOther, in_v4(IPPROTO_ICMP, kOther, kPod, reply));
  };
  REQUIRE(read(kMark));
  CHECK(read(kMark)->number == 7);
  CHECK(read(kMark)->answer.kind == Answer::Kind::kReply);
  CHECK(read(kMark)->token == 77);
  CHECK_FALSE(read({.cookie = kMark.cookie, .id = 0x1235, .port = kMark.port}));
  CHECK_FALSE(read({.cookie = kMark.cookie + 1, .id = kMark.id, .port = kMark.port}));
}

TEST_CASE("an echo whose ID was translated is known on its way, and no answer to its sender") {
  Bytes reply = echo();
  reply[0] = ICMP_ECHOREPLY;
  reply[4] = 0x77;
  const auto seen = seen_in(kMark, in_v4(IPPROTO_ICMP, kOther, kPod, {}), reply);
  REQUIRE(seen);
  CHECK(seen->is_answer);
  CHECK(seen->token == 77);
  CHECK_FALSE(received_by(kMark, IPPROTO_ICMP, kOther, in_v4(IPPROTO_ICMP, kOther, kPod, reply)));
  const Bytes beginning(reply.begin(), reply.begin() + 8);  // as an ICMP error has it
  CHECK_FALSE(seen_in(kMark, in_v4(IPPROTO_ICMP, kOther, kPod, {}), beginning));
}

TEST_CASE("a reply without the token of its echo is none") {
  Bytes reply = echo();
  reply[0] = ICMP_ECHOREPLY;
  reply.resize(12);
  CHECK_FALSE(received_by(kMark, IPPROTO_ICMP, kOther, in_v4(IPPROTO_ICMP, kOther, kPod, reply)));
}

TEST_CASE("a connection is open, or closed by a reset") {
  const auto read = [](std::uint8_t flags) {
    return received_by(kMark, IPPROTO_TCP, kOther,
                       in_v4(IPPROTO_TCP, kOther, kPod, answer_to_syn(flags)));
  };
  REQUIRE(read(0x12));
  CHECK(read(0x12)->number == 7);
  CHECK(read(0x12)->answer.kind == Answer::Kind::kOpen);
  CHECK(read(0x14)->answer.kind == Answer::Kind::kClosed);
  CHECK_FALSE(read(0x10));
}

TEST_CASE("an ICMP error is of the probe that it quotes") {
  Bytes error{ICMP_DEST_UNREACH, ICMP_PKT_FILTERED, 0, 0, 0, 0, 0, 0};
  const Bytes quoted = in_v4(IPPROTO_TCP, kPod, kOther, syn(3));
  error.insert(error.end(), quoted.begin(), quoted.begin() + 28);
  const Ip router = *Ip::parse("192.0.2.1");
  const auto one =
      received_by(kMark, IPPROTO_ICMP, router, in_v4(IPPROTO_ICMP, router, kPod, error));
  REQUIRE(one);
  CHECK(one->number == 3);
  CHECK(one->answer.str() == "192.0.2.1 says: administratively prohibited");
}

TEST_CASE("a traced header is a probe's, or an answer's") {
  const Bytes header = in_v4(IPPROTO_TCP, kPod, kOther, {});
  const auto sent = seen_in(kMark, header, syn(9));
  REQUIRE(sent);
  CHECK(sent->number == 9);
  CHECK_FALSE(sent->is_answer);
  CHECK(sent->destination == kOther);
  const auto back = seen_in(kMark, in_v4(IPPROTO_TCP, kOther, kPod, {}), answer_to_syn(0x12));
  REQUIRE(back);
  CHECK(back->is_answer);
}

TEST_CASE("any bytes are harmless") {
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes(random() % 80);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    if (!bytes.empty() && round % 2 == 0) bytes[0] = 0x45;
    for (const int protocol : {IPPROTO_ICMP, IPPROTO_TCP}) {
      received_by(kMark, static_cast<std::uint8_t>(protocol), kOther, bytes);
    }
    received_by(kMark, 58, *Ip::parse("fd00::1"), bytes);
    seen_in(kMark, bytes, bytes);
  }
}

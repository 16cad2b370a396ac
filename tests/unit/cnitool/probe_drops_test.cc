#include <doctest/doctest.h>

#include "cnitool/probe/drop_words.h"
#include "cnitool/probe/drops.h"

using namespace tool::probe;
using netlink::Ip;

namespace {

const Ip kFrom = *Ip::parse("10.1.2.3"), kTo = *Ip::parse("10.1.2.4"),
         kBetween = *Ip::parse("10.1.2.1");

Sent sent(Kind kind) {
  return {.packet = {.kind = kind, .source = kFrom, .target = kTo, .port = 80, .token = 77}};
}
Seen seen(const Ip& from, const Ip& to, std::optional<std::uint32_t> token = {}) {
  return {.source = from, .destination = to, .token = token};
}

}  // namespace

TEST_CASE("an echo is known by its token, and not by what a pod may copy of another probe") {
  CHECK(is_of(sent(Kind::kEcho), seen(kFrom, kTo, 77)));
  CHECK(is_of(sent(Kind::kEcho), seen(kBetween, kTo, 77)));  // its source was replaced
  CHECK_FALSE(is_of(sent(Kind::kEcho), seen(kFrom, kTo, 78)));
  CHECK_FALSE(is_of(sent(Kind::kEcho), seen(kFrom, kTo)));
}

TEST_CASE("a segment is known by its source, which the node may replace by its own") {
  Sent one = sent(Kind::kSyn);
  CHECK(is_of(one, seen(kFrom, kTo)));
  CHECK(is_of(one, seen(kFrom, kBetween)));  // led elsewhere
  CHECK_FALSE(is_of(one, seen(kBetween, kTo)));
  one.sources = {kBetween};
  CHECK(is_of(one, seen(kBetween, kTo)));
  CHECK_FALSE(is_of(one, seen(kTo, kFrom)));
  Seen answer = seen(kTo, kFrom);
  answer.is_answer = true;
  CHECK(is_of(one, answer));
  answer.source = kFrom;
  CHECK_FALSE(is_of(one, answer));
  one.destination = kFrom;
  CHECK(is_of(one, answer));
}

TEST_CASE("what raw sockets and the stack do with packets that they have handed over is no drop") {
  CHECK(says_nothing({.reason = "SOCKET_FILTER", .symbol = "raw_rcv"}));
  CHECK(says_nothing({.reason = "NO_SOCKET", .symbol = "tcp_v4_rcv"}));
  CHECK(says_nothing(
      {.of = Drop::Of::kNeighbour, .reason = "NOT_SPECIFIED", .symbol = "ip6_mc_input"}));
  CHECK_FALSE(says_nothing({.reason = "NOT_SPECIFIED", .symbol = "ip6_mc_input"}));
  CHECK_FALSE(says_nothing({.reason = "TCP_CSUM", .symbol = "tcp_v4_rcv"}));
  CHECK_FALSE(says_nothing({.reason = "NO_SOCKET", .symbol = "__udp4_lib_rcv"}));
  CHECK(says_nothing({.reason = "NOT_SPECIFIED", .symbol = "neigh_invalidate"}));
  CHECK_FALSE(says_nothing({.reason = "NEIGH_CREATEFAIL", .symbol = "neigh_create"}));
}

TEST_CASE("a reason says where, and what heals there") {
  const DropPlace node{.link = "up1", .source = "192.0.2.2"};
  const DropWords words = words_of({.reason = "IP_RPFILTER"}, node);
  CHECK(words.what ==
        "reverse path filtering drops packets from 192.0.2.2 at link 'up1': the route to 192.0.2.2 "
        "leads elsewhere");
  CHECK(words.remedy == "sysctl -w net/ipv4/conf/up1/rp_filter=2");
  CHECK(words.is_certain);
  const DropPlace pod{.link = "eth0", .pod = "shop/web-1 (eth0)", .netns = "/run/netns/web 1"};
  const DropWords there = words_of({.reason = "XDP"}, pod);
  CHECK(there.what == "an XDP program drops packets at link 'eth0' of the pod shop/web-1 (eth0)");
  CHECK(there.remedy ==
        "nsenter --net='/run/netns/web 1' ip link set dev eth0 xdp off; "
        "nsenter --net='/run/netns/web 1' ip link set dev eth0 xdpgeneric off");
}

TEST_CASE("a driver and a bridge that give no reason are known by their functions") {
  const DropPlace place{.link = "veth0"};
  CHECK(words_of({.reason = "NOT_SPECIFIED", .symbol = "veth_xdp_rcv_skb"}, place).what ==
        "an XDP program drops packets at link 'veth0'");
  const DropWords bridge = words_of({.reason = "NOT_SPECIFIED", .symbol = "br_forward"}, place);
  CHECK(bridge.what == "the bridge drops packets at link 'veth0' (br_forward)");
  CHECK(bridge.is_certain);
}

TEST_CASE("a reason without words is called as the kernel does, and explains less than the state") {
  const DropWords words = words_of({.reason = "VXLAN_VNI_NOT_FOUND", .symbol = "vxlan_rcv"}, {});
  CHECK(words.what == "the kernel drops packets: VXLAN_VNI_NOT_FOUND in vxlan_rcv");
  CHECK_FALSE(words.is_certain);
  CHECK(words_of({.symbol = "ip_error"}, {.link = "a"}).what ==
        "the kernel drops packets at link 'a': no reason is given in ip_error");
  CHECK(words_of({.reason = "IP_RPFILTER"}, {}).remedy == "ip -d link");
}

TEST_CASE("the name of a link is printed cleanly, and is one word for the shell") {
  const DropWords words = words_of({.reason = "TC_EGRESS"}, {.link = "a;reboot\x1b"});
  CHECK(words.what.find('\x1b') == std::string::npos);
  CHECK(words.remedy.find("dev 'a;reboot") != std::string::npos);
}

#include "netlink/route/neighbour.h"

#include <doctest/doctest.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "tests/unit/netlink/any_bytes.h"

using namespace netlink;

namespace {

const Mac kSeenMac = *Mac::parse("02:00:00:00:00:99");

Message shown(const Ip& ip, std::uint16_t state, unsigned char family) {
  ndmsg head{};
  head.ndm_family = family;
  head.ndm_ifindex = 5;
  head.ndm_state = state;
  Message out(RTM_NEWNEIGH, 0, head);
  out.put(NDA_DST, ip);
  out.put(NDA_LLADDR, kSeenMac.bytes);
  return out;
}

}  // namespace

TEST_CASE("a neighbour is read with its address, link, state and MAC address") {
  const Ip ip = *Ip::parse("10.1.2.3");
  const auto one = decode_neighbour(Reply(shown(ip, NUD_PERMANENT, AF_INET).bytes()));
  REQUIRE(one);
  CHECK(*one == Neighbour{ip, 5, kSeenMac, NUD_PERMANENT});
  CHECK(one->is_permanent());
  CHECK_FALSE(one->has_failed());
  const auto v6 =
      decode_neighbour(Reply(shown(*Ip::parse("fd00::3"), NUD_FAILED, AF_INET6).bytes()));
  REQUIRE(v6);
  CHECK(v6->has_failed());
}

TEST_CASE("an entry of a bridge is no neighbour") {
  const Message message = shown(*Ip::parse("10.1.2.3"), NUD_PERMANENT, AF_BRIDGE);
  CHECK_FALSE(decode_neighbour(Reply(message.bytes())));
}

TEST_CASE("odd bytes are harmless as neighbours") {
  harmless_for_any_bytes(shown(*Ip::parse("fd00::3"), NUD_STALE, AF_INET6),
                         [](const Reply& reply) { decode_neighbour(reply); });
}

TEST_CASE("a removal names the address and the link") {
  const RouteRequest request = remove(Neighbour{*Ip::parse("10.1.2.3"), 5});
  const Reply sent(request.message.bytes());
  CHECK(sent.type() == RTM_DELNEIGH);
  CHECK(sent.fixed<ndmsg>().ndm_ifindex == 5);
  CHECK(request.tolerated == std::vector<int>{ENOENT});
}

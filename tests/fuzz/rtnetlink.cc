// What the kernel answers about links, addresses, routes, VLANs, qdiscs, classes and filters: a
// datagram of netlink messages, each read by whoever would have asked for it.
#include <linux/if_bridge.h>
#include <linux/rtnetlink.h>

#include <stdexcept>

#include "netlink/route/address.h"
#include "netlink/route/bridge_vlan.h"
#include "netlink/route/link.h"
#include "netlink/route/route.h"
#include "netlink/tc/filter.h"
#include "netlink/tc/htb_class.h"
#include "netlink/tc/qdisc.h"
#include "netlink/types/error.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace netlink;
using fuzz::require;

const Link kLink{.index = 2, .name = "eth0"};

void read_link(const Reply& reply) {
  const Link link = decode_link(reply);
  require(!str(link.oper_state).empty(), "a state has a name");
  if (std::holds_alternative<Tun>(link.data)) return;  // which no request makes
  const RouteRequest again = add(NewLink{.kind = link.kind, .name = "eth0", .data = link.data});
  require(decode_link(Reply(again.message.bytes())).data == link.data,
          "a link is made as it was read");
}

void read_qdisc(const Reply& reply) {
  const tc::QdiscState state = tc::decode_qdisc(reply);
  require(!state.options || tc::name(*state.options) == state.kind,
          "options are those of the kind");
  if (!state.options) return;
  const RouteRequest again = tc::replace(kLink, {state.parent, state.handle, *state.options});
  tc::QdiscState made = tc::decode_qdisc(Reply(again.message.bytes()));
  require(made.kind == state.kind && made.options == state.options,
          "a qdisc is made as it was read");
  if (const auto* const tbf = state.as<tc::Tbf>()) {
    require(tc::can_become(*tbf, *tbf), "a bucket may become itself");
  }
}

void read_class(const Reply& reply) {
  const auto found = tc::decode_htb_class(reply);
  if (!found) return;
  const RouteRequest again = tc::replace(kLink, *found);
  require(tc::decode_htb_class(Reply(again.message.bytes())) == found,
          "a class is made as it was read");
}

void read_filter(const Reply& reply) {
  const auto filter = tc::decode_filter(reply);
  if (filter) filter->redirects_all_to(3);
}

void read_address(const Reply& reply) {
  const LinkAddress address = decode_address(reply);
  require(address.cidr.prefix <= address.cidr.ip.bits(), "a prefix is no longer than its address");
  require(Cidr::parse(address.cidr.str()) == address.cidr, "an address is read as it was printed");
  add(kLink, NewAddress{address.cidr});
}

void read_route(const Reply& reply) {
  decode_path(reply);
  const LinkRoute route = decode_route(reply);
  require(route.dst.prefix <= route.dst.ip.bits(), "a prefix is no longer than its address");
  add(kLink, route);
}

void read_one(const Reply& reply) {
  switch (reply.type()) {
    case RTM_NEWLINK:
      return read_link(reply);
    case RTM_NEWADDR:
      return read_address(reply);
    case RTM_NEWROUTE:
      return read_route(reply);
    case RTM_NEWVLAN:
      decode_port_vlans(reply);
      break;
    case RTM_NEWQDISC:
      return read_qdisc(reply);
    case RTM_NEWTCLASS:
      return read_class(reply);
    case RTM_NEWTFILTER:
      return read_filter(reply);
    default:
      break;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Datagram datagram(data, size);
  for (const Reply& reply : Replies{datagram.bytes()}) {
    try {
      read_one(reply);
    } catch (const std::invalid_argument&) {  // shorter than its header says
    }
  }
  return 0;
}

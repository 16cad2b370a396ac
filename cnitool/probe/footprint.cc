#include "cnitool/probe/footprint.h"

#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>

#include <algorithm>

#include "netlink/route/socket.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using netlink::Neighbour;

std::optional<netlink::nf::NfSocket> nf_socket_in(const netlink::NetNs& ns) {
  const netlink::NetNs::Entered there(ns);
  return netlink::nf::NfSocket::find();
}

// As conntrack has it.
std::optional<netlink::nf::Tuple> tuple_of(const Packet& packet, const Mark& mark) {
  if (!packet.source) return std::nullopt;
  if (packet.kind != Kind::kEcho) {
    return netlink::nf::Tuple{*packet.source, packet.target,
                              static_cast<std::uint16_t>(mark.port + packet.number), packet.port};
  }
  const int type = packet.target.is_v4() ? int{ICMP_ECHO} : int{ICMP6_ECHO_REQUEST};
  return netlink::nf::Tuple{*packet.source, packet.target, mark.id,
                            static_cast<std::uint16_t>(type << 8)};
}

}  // namespace

Footprint::Footprint(const std::vector<netlink::NetNs>& places) {
  for (const netlink::NetNs& ns : places) {
    Place& place = places_.emplace_back(Place{ns, {}, nf_socket_in(ns)});
    netlink::RouteSocket socket(ns);
    for (const Neighbour& one : netlink::neighbours(socket)) place.before.emplace(one.link, one.ip);
    // By these IPv6 asks again whether a neighbour is reachable.
    for (const netlink::LinkAddress& one : socket.addresses()) {
      if (one.cidr.ip.is_link_local()) touched_.insert(one.cidr.ip);
    }
  }
}

void Footprint::expect(const Packet& packet, const Mark& mark,
                       const std::vector<std::size_t>& where) {
  expected_.push_back({packet, mark, where});
  touched_.insert(packet.target);
  if (packet.source) touched_.insert(*packet.source);
}

std::optional<netlink::nf::Flow> Footprint::flow_of(std::size_t place, const Packet& packet,
                                                    const Mark& mark) {
  const auto tuple = tuple_of(packet, mark);
  auto& socket = places_[place].socket;
  if (!tuple || !socket) return std::nullopt;
  return netlink::nf::find(*socket, packet.protocol(), *tuple);
}

void Footprint::forget() {
  for (const Expected& one : expected_) {
    for (const std::size_t place : one.where) {
      const auto flow = flow_of(place, one.packet, one.mark);
      if (flow) netlink::nf::remove(*places_[place].socket, *flow);
    }
  }
  expected_.clear();
}

// As an entry goes that nobody has answered for, the packets that wait for it are given back to
// their senders (ICMP's "unreachable"), for which the node makes entries: these go in a second
// turn.
void Footprint::remove_neighbours() {
  for (const bool is_last : {false, true}) {
    bool has_failed = false;
    for (const Place& place : places_) {
      netlink::RouteSocket socket(place.ns);
      for (const Neighbour& one : netlink::neighbours(socket)) {
        const bool is_ours =
            touched_.contains(one.ip) && !place.before.contains({one.link, one.ip});
        if (!is_ours || one.is_permanent()) continue;
        has_failed |= one.has_failed();
        socket.attempt(netlink::remove(one));
      }
    }
    if (!has_failed || is_last) return;
  }
}

void Footprint::restore() {
  forget();
  remove_neighbours();
}

void Footprint::restore_for_other() {
  for (Place& place : places_) place.socket = nf_socket_in(place.ns);
  restore();
}

}  // namespace tool::probe

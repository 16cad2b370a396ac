#include "cnitool/probe/footprint.h"

#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>

#include <algorithm>

#include "netlink/route/socket.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using netlink::Neighbour;

std::vector<Neighbour> neighbours_in(const netlink::NetNs& ns) {
  netlink::RouteSocket socket(ns);
  return netlink::neighbours(socket);
}

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

bool is_same(const Neighbour& a, const Neighbour& b) { return a.ip == b.ip && a.link == b.link; }

}  // namespace

Footprint::Footprint(const std::vector<netlink::NetNs>& places) {
  for (const netlink::NetNs& ns : places) {
    places_.push_back({ns, neighbours_in(ns), nf_socket_in(ns)});
  }
}

std::optional<netlink::nf::Flow> Footprint::flow_of(std::size_t place, const Packet& packet,
                                                    const Mark& mark) {
  const auto tuple = tuple_of(packet, mark);
  auto& socket = places_[place].socket;
  if (!tuple || !socket) return std::nullopt;
  return netlink::nf::find(*socket, packet.protocol(), *tuple);
}

void Footprint::forget(const Packet& packet, const Mark& mark,
                       const std::vector<std::size_t>& where) {
  for (const std::size_t place : where) {
    const auto flow = flow_of(place, packet, mark);
    if (flow) netlink::nf::remove(*places_[place].socket, *flow);
  }
}

// As an entry goes that nobody has answered for, the packets that wait for it are given back to
// their senders (ICMP's "unreachable"), for which the node makes entries: these go after it.
void Footprint::restore() {
  for (const bool failed : {true, false}) {
    for (const Place& place : places_) {
      netlink::RouteSocket socket(place.ns);
      for (const Neighbour& one : netlink::neighbours(socket)) {
        const bool was_there = std::ranges::any_of(
            place.before, [&](const Neighbour& before) { return is_same(before, one); });
        if (was_there || one.is_permanent() || one.has_failed() < failed) continue;
        socket.attempt(netlink::remove(one));
      }
    }
  }
}

}  // namespace tool::probe

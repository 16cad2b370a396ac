#include "cnitool/probe/footprint.h"

#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "netlink/route/path_exception.h"
#include "netlink/route/socket.h"
#include "netlink/sysctl.h"
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
    const bool is_node = places_.empty();
    Place& place = places_.emplace_back(Place{ns, {}, nf_socket_in(ns)});
    for (const netlink::LinkAddress& one : netlink::RouteSocket(ns).addresses()) {
      const Ip& ip = one.cidr.ip;
      if (!ip.is_loopback()) place.links.insert(one.link);
      if (!ip.is_link_local()) continue;
      place.own.push_back(ip);
      if (is_node) node_own_[one.link].push_back(ip);
    }
    // Of pods the node may have all; of its own those that share a link with it.
    for (const Ip& ip : place.own) touch(0, ip);
  }
}

void Footprint::touch(std::size_t place, const Ip& ip) {
  places_[place].touched.insert(ip);
  places_.front().touched.insert(ip);
}

void Footprint::expect(std::size_t place, int node_link) {
  const auto found = node_own_.find(node_link);
  if (found == node_own_.end()) return;
  for (const Ip& ip : found->second) touch(place, ip);
}

void Footprint::expect(const Packet& packet, const Mark& mark,
                       const std::vector<std::size_t>& where) {
  expected_.push_back({packet, mark, where});
  for (const std::size_t place : where) {
    touch(place, packet.target);
    const bool may_learn = packet.size != 0 && !packet.target.is_v4();
    if (may_learn) places_[place].paths.emplace(packet.target, false);
    if (packet.source) touch(place, *packet.source);
    for (const std::size_t other : where) {
      if (other == 0 || other == place || packet.target.is_v4()) continue;
      for (const Ip& ip : places_[other].own) touch(place, ip);
    }
  }
}

std::vector<Neighbour> Footprint::touched_at(std::size_t place, const std::set<Ip>& touched) const {
  netlink::RouteSocket socket(places_[place].ns);
  std::vector<Neighbour> out;
  if (place == 0) {
    out = netlink::neighbours(socket);
    std::erase_if(out, [&](const Neighbour& one) { return !touched.contains(one.ip); });
    return out;
  }
  for (const Ip& ip : touched) {
    for (const int link : places_[place].links) {
      if (const auto found = netlink::find_neighbour(socket, link, ip)) out.push_back(*found);
    }
  }
  return out;
}

void Footprint::remember() {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    std::set<Ip> fresh;
    std::ranges::set_difference(place.touched, place.remembered, std::inserter(fresh, fresh.end()));
    if (fresh.empty()) continue;
    netlink::RouteSocket socket(place.ns);
    for (auto& [ip, was_known] : place.paths) {
      if (fresh.contains(ip)) was_known = netlink::has_path_exception(socket, ip);
    }
    for (const Neighbour& one : touched_at(i, fresh)) place.before.emplace(one.link, one.ip);
    place.remembered.merge(fresh);
  }
}

std::optional<netlink::nf::Flow> Footprint::flow_of(std::size_t place, const Packet& packet,
                                                    const Mark& mark) {
  const auto tuple = tuple_of(packet, mark);
  auto& socket = places_[place].socket;
  if (!tuple || !socket) return std::nullopt;
  return netlink::nf::find(*socket, packet.protocol(), *tuple);
}

std::string Footprint::lacks() {
  auto& socket = places_.front().socket;
  if (!socket) return "nfnetlink";
  const bool is_tracking = netlink::read_sysctl("net/netfilter/nf_conntrack_count").has_value();
  const bool is_blind = is_tracking && !netlink::nf::answers_about_flows(*socket);
  return is_blind ? "ctnetlink (module nf_conntrack_netlink)" : "";
}

bool Footprint::is_ours(const Place& place, const std::vector<const Expected*>& probes,
                        const netlink::nf::Flow& flow) const {
  const netlink::nf::Tuple& seen = flow.original;
  return std::ranges::any_of(probes, [&](const Expected* one) {
    const auto sent = tuple_of(one->packet, one->mark);
    if (!sent || flow.protocol != one->packet.protocol()) return false;
    if (seen.source_port != sent->source_port) return false;
    const bool is_echo = one->packet.kind == Kind::kEcho;
    if (is_echo && seen.destination_port != sent->destination_port) return false;
    return seen.source == sent->source || seen.destination == sent->destination ||
           (place.touched.contains(seen.source) && place.touched.contains(seen.destination));
  });
}

// Of these none was found by what they were sent with: they may not have come there, or not be
// tracked there, or in a zone, or with another source.
void Footprint::forget_changed(std::size_t at, const std::vector<const Expected*>& probes) {
  constexpr int kMostTracked = 200'000;  // all of them are read: a second
  Place& place = places_[at];
  int tracked = 0;
  {
    const netlink::NetNs::Entered there(place.ns);
    const auto count = netlink::read_sysctl("net/netfilter/nf_conntrack_count");
    tracked = count ? std::atoi(count->c_str()) : 0;
  }
  if (tracked == 0 || tracked > kMostTracked) return;
  std::set<std::pair<netlink::Family, std::uint8_t>> kinds;
  for (const Expected* one : probes) {
    kinds.emplace(one->packet.target.family(), one->packet.protocol());
  }
  for (const auto& [family, protocol] : kinds) {
    for (const auto& flow :
         netlink::nf::flows(*place.socket, {.family = family, .protocol = protocol})) {
      if (is_ours(place, probes, flow)) netlink::nf::remove(*place.socket, flow);
    }
  }
}

void Footprint::forget() {
  std::map<std::size_t, std::vector<const Expected*>> missing;
  for (const Expected& one : expected_) {
    for (const std::size_t place : one.where) {
      if (!places_[place].socket) continue;
      const auto flow = flow_of(place, one.packet, one.mark);
      if (flow) {
        netlink::nf::remove(*places_[place].socket, *flow);
      } else {
        missing[place].push_back(&one);
      }
    }
  }
  for (const auto& [place, probes] : missing) forget_changed(place, probes);
  expected_.clear();
}

void Footprint::remove_paths() {
  for (const Place& place : places_) {
    if (std::ranges::all_of(place.paths, [](const auto& one) { return one.second; })) continue;
    netlink::RouteSocket socket(place.ns);
    for (const auto& [ip, was_known] : place.paths) {
      if (!was_known) socket.attempt(netlink::remove_path_exception(ip));
    }
  }
}

// As an entry goes that nobody has answered for, the packets that wait for it are given back to
// their senders (ICMP's "unreachable"), for which the node makes entries: these go in a second
// turn.
void Footprint::remove_neighbours() {
  for (const bool is_last : {false, true}) {
    bool has_failed = false;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const auto here = touched_at(i, places_[i].remembered);
      if (here.empty()) continue;
      netlink::RouteSocket socket(places_[i].ns);
      for (const Neighbour& one : here) {
        if (places_[i].before.contains({one.link, one.ip}) || one.is_permanent()) continue;
        has_failed |= one.has_failed();
        socket.attempt(netlink::remove(one));
      }
    }
    if (!has_failed || is_last) return;
  }
}

void Footprint::restore() {
  forget();
  remove_paths();
  remove_neighbours();
}

void Footprint::restore_for_other() {
  for (Place& place : places_) place.socket = nf_socket_in(place.ns);
  restore();
}

}  // namespace tool::probe

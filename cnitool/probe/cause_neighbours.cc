#include <algorithm>
#include <chrono>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "libcni/common/error.h"
#include "netlink/address_claim.h"
#include "netlink/route/link_settings.h"
#include "netlink/route/neighbour.h"
#include "netlink/sysctl.h"

// What the node and pods believe about MAC addresses, and why they learn none.
namespace tool::probe {

namespace {

using cni::cat;
using doctor::quoted;
using netlink::Ip;
using netlink::Link;
using netlink::Mac;
using netlink::Neighbour;

/// The next hop of a packet from one place: by which link, and who has its address.
struct Hop {
  const Subject* where = nullptr;
  Link link;
  Ip ip;
  std::optional<Mac> mac = {};     ///< that it has; empty: unknown
  const Subject* owner = nullptr;  ///< null: the node, or a host beyond it
  bool is_beyond = false;          ///< the owner
};

// Of a pod: the pod itself on its segment, else its gateway, which is the node's.
std::optional<Hop> hop_from(const Look& look) {
  const Leg& leg = look.leg;
  if (leg.from == nullptr) return std::nullopt;
  const Wire& wire = look.scene.wire_of(*leg.from);
  if (!wire.inner) return std::nullopt;
  const Ip target = leg.is_answer ? leg.target : look.one.question.packet.target;
  netlink::PacketPath path{.destination = target};
  if (!leg.source.is_unspecified()) path.source = leg.source;
  const auto found = look.scene.at(leg.from).match(path);
  if (!found) return std::nullopt;
  Hop out{.where = leg.from, .link = *wire.inner, .ip = found->route.gateway.value_or(target)};
  if (look.scene.facts().has(out.ip)) {
    if (const Link* const way = wire.way()) out.mac = way->mac;
  } else if (leg.to != nullptr && out.ip == leg.target) {
    const Wire& other = look.scene.wire_of(*leg.to);
    out.owner = leg.to;
    if (other.inner) out.mac = other.inner->mac;
  } else {
    out.is_beyond = true;
  }
  return out;
}

std::optional<Hop> hop_from_node(const Look& look) {
  const Leg& leg = look.leg;
  if (leg.to != nullptr) {
    const Wire& wire = look.scene.wire_of(*leg.to);
    const bool is_bridged = !look.one.question.destination && leg.from != nullptr && wire.bridge &&
                            look.scene.wire_of(*leg.from).bridge &&
                            look.scene.wire_of(*leg.from).bridge->index == wire.bridge->index;
    if (wire.way() == nullptr || is_bridged) return std::nullopt;
    Hop out{.link = *wire.way(), .ip = leg.target, .owner = leg.to};
    if (wire.inner) out.mac = wire.inner->mac;
    return out;
  }
  if (!leg.is_beyond) return std::nullopt;
  const auto& uplink = look.scene.facts().uplink(leg.target.family());
  auto link = uplink ? look.scene.at(nullptr).find(uplink->link) : std::nullopt;
  if (!link) return std::nullopt;
  return Hop{.link = *std::move(link), .ip = uplink->gateway, .is_beyond = true};
}

// Answers to the sender's own questions for MAC addresses go by it.
std::optional<Hop> hop_back(const Look& look) {
  const Leg& leg = look.leg;
  if (leg.from == nullptr || look.scene.facts().has(leg.source)) return std::nullopt;
  const Wire& wire = look.scene.wire_of(*leg.from);
  if (wire.way() == nullptr || !wire.inner || !wire.outer) return std::nullopt;
  return Hop{.link = *wire.way(), .ip = leg.source, .mac = wire.inner->mac, .owner = leg.from};
}

std::vector<Hop> hops_of(const Look& look) {
  std::vector<Hop> out;
  if (auto hop = hop_from(look)) out.push_back(*std::move(hop));
  if (auto hop = hop_from_node(look)) out.push_back(*std::move(hop));
  return out;
}

std::string believer(const Hop& hop) {
  return hop.where == nullptr ? "the node's " : cat(prefix_of(hop.where), "its ");
}

std::optional<Cause> no_solicitations(const Look& look, const Hop& hop) {
  const char* const family = hop.ip.is_v4() ? "ipv4" : "ipv6";
  const std::string key = cat("net/", family, "/neigh/", hop.link.name, "/mcast_solicit");
  if (look.scene.sysctl(hop.where, key).value_or("3") != "0") return std::nullopt;
  return Cause{
      cat(prefix_of(hop.where), printable(key), " is 0, and nobody is asked for a MAC address"), "",
      command_in(hop.where, cat("sysctl -w ", quoted(cat(key, "=3"))))};
}

// The owner of the address does not answer ARP there.
std::optional<Cause> keeps_silent(const Look& look, const Hop& hop) {
  if (hop.is_beyond || !hop.ip.is_v4()) return std::nullopt;
  std::string link = hop.owner != nullptr ? hop.owner->key.ifname : "";
  if (hop.owner == nullptr && hop.where != nullptr) {
    const Link* const way = look.scene.wire_of(*hop.where).way();
    link = way == nullptr ? "" : way->name;
  }
  constexpr int kMostAnswering = 2;  // of another link or subnet, 3 and more: none, or few
  const int ignored = link.empty() ? 0 : look.scene.greater(hop.owner, link, "arp_ignore");
  if (ignored <= kMostAnswering) return std::nullopt;
  const std::string key = cat("net/ipv4/conf/", link, "/arp_ignore");
  return Cause{cat(prefix_of(hop.owner), printable(key), " is ", ignored, ", and ARP for ",
                   hop.ip.str(), " is not answered"),
               "", command_in(hop.owner, cat("sysctl -w ", quoted(cat(key, "=0"))))};
}

// Of a host beyond the node: who has the address there, by an ARP probe (RFC 5227).
std::optional<Mac> asked_mac(const Hop& hop) {
  constexpr auto kPatience = std::chrono::milliseconds(300);
  if (!hop.is_beyond || hop.where != nullptr || !hop.ip.is_v4()) return std::nullopt;
  netlink::SegmentSocket socket(netlink::NetNs::current(), hop.link.index,
                                netlink::SegmentSocket::Protocol::kArp);
  socket.send(netlink::arp_probe(hop.link.mac, hop.ip));
  const auto claim =
      socket.claim_until(std::chrono::steady_clock::now() + kPatience,
                         [&](const netlink::NeighbourClaim& one) { return one.address == hop.ip; });
  return claim ? std::optional(claim->owner) : std::nullopt;
}

// What an answer says is no ground to remove anything.
Cause other_router(const Hop& hop, const Neighbour& found, const Mac& answered) {
  return {cat("the node's permanent neighbour ", hop.ip.str(), " on '", printable(hop.link.name),
              "' is ", found.mac->str(), ", and ", answered.str(), " answers ARP for it"),
          "of a person or another program",
          cat("ip neigh show ", hop.ip.str(), " dev ", quoted(hop.link.name))};
}

std::optional<Neighbour> neighbour_of(const Look& look, const Hop& hop) {
  return netlink::find_neighbour(look.scene.at(hop.where), hop.link.index, hop.ip);
}

// Of a link without ARP, and of groups, the kernel makes the entries itself.
bool is_kernels(const Look& look, const Hop& hop, const Neighbour& found) {
  return found.mac->is_multicast() ||
         (netlink::settings_of(look.scene.at(hop.where), hop.link).flags & kNoArp) != 0;
}

}  // namespace

std::optional<Cause> wrong_neighbour(const Look& look) {
  std::vector<Hop> hops = hops_of(look);
  if (auto hop = hop_back(look)) hops.push_back(*std::move(hop));
  for (const Hop& hop : hops) {
    const auto found = neighbour_of(look, hop);
    if (!found || !found->mac || !found->is_fixed() || is_kernels(look, hop, *found)) continue;
    const auto answered = hop.mac ? std::nullopt : asked_mac(hop);
    if (answered && *answered != *found->mac) return other_router(hop, *found, *answered);
    if (!hop.mac || *found->mac == *hop.mac) continue;
    return Cause{
        cat(believer(hop), found->is_permanent() ? "permanent " : "fixed ", "neighbour ",
            hop.ip.str(), " on '", printable(hop.link.name), "' is ", found->mac->str(), ", and ",
            name_of(hop.owner), " has ", hop.mac->str()),
        "of a person or another program",
        command_in(hop.where, cat("ip neigh del ", hop.ip.str(), " dev ", quoted(hop.link.name)))};
  }
  return std::nullopt;
}

std::optional<Cause> unresolved(const Look& look) {
  for (const Hop& hop : hops_of(look)) {
    if (hop.is_beyond && hop.where == nullptr) continue;
    if (look.scene.resolved(hop.where, hop.link.index, hop.ip)) continue;
    if (hop.is_beyond && hop.where->is_routed) {
      return Cause{cat(prefix_of(hop.where), "its next hop ", hop.ip.str(), " on '",
                       printable(hop.link.name), "' has no MAC address: nobody answers for it"),
                   "of the pod itself, or of a person", restart_of(*hop.where)};
    }
    if (auto cause = no_solicitations(look, hop)) return cause;
    if (auto cause = keeps_silent(look, hop)) return cause;
  }
  return std::nullopt;
}

std::optional<Cause> gateway_is_away(const Look& look) {
  const auto hop = hop_from_node(look);
  if (!hop || !hop->is_beyond) return std::nullopt;
  if (!look.leg.out.empty() && look.leg.out != hop->link.name) return std::nullopt;
  if (look.scene.resolved(nullptr, hop->link.index, hop->ip)) return std::nullopt;
  if (auto cause = no_solicitations(look, *hop)) return cause;
  const std::string xdp = xdp_program_of(look.scene.at(nullptr), hop->link);
  return Cause{cat("the node's gateway ", hop->ip.str(), " has no MAC address on '",
                   printable(hop->link.name), "': nobody there answers ",
                   hop->ip.is_v4() ? "ARP" : "neighbour solicitations", " for it",
                   xdp.empty() ? "" : cat(", or the XDP program ", xdp, " takes the answers")),
               "", cat("ip neigh show dev ", quoted(hop->link.name))};
}

}  // namespace tool::probe

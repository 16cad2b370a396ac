#include "cnitool/probe/ways_out.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "cnitool/route_back.h"
#include "netlink/address_claim.h"
#include "netlink/route/link_settings.h"
#include "netlink/route/neighbour.h"
#include "netlink/route/socket.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using cni::cat;
using netlink::Bytes;
using netlink::Family;
using netlink::Ip;
using netlink::LinkRoute;
using netlink::SegmentSocket;

// The host veths and bridges of pods have addresses, too.
bool is_of_pods(const netlink::LinkAddress& one, const std::vector<Subject>& subjects) {
  return std::ranges::any_of(subjects, [&](const Subject& pod) {
    return std::ranges::any_of(
        pod.result.ips, [&](const cni::Address& each) { return each.gateway == one.cidr.ip; });
  });
}

bool leads_out(const Subject& one, Family family) {
  return one.is_routed && std::ranges::any_of(one.result.routes, [&](const cni::Route& route) {
           return route.dst.is_default() && route.dst.ip.family() == family;
         });
}

doctor::Names led_out(const std::vector<Subject>& subjects, const std::vector<bool>& asked,
                      Family family) {
  doctor::Names out;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    if (asked[i] && leads_out(subjects[i], family)) out.push_back(subjects[i].name);
  }
  return out;
}

// The one of table main that decides; a refusal of the largest metrics is for what has no other.
std::optional<LinkRoute> default_route(netlink::RouteSocket& node, Family family) {
  constexpr std::uint32_t kMainTable = 254, kLastResort = 0xff00'0000;
  std::optional<LinkRoute> out;
  for (const LinkRoute& one : node.all_routes(family)) {
    const bool is_last = !netlink::refusal_of(one).empty() && one.priority >= kLastResort;
    if (!one.dst.is_default() || one.table != kMainTable || is_last) continue;
    if (!out || one.priority < out->priority) out = one;
  }
  return out;
}

// A broadcast for it: of ARP by the node's own address, if it has one there; of IPv6 as the
// duplicate address detection asks.
Bytes request_for(const Ip& gateway, netlink::RouteSocket& node, const netlink::Link& link) {
  if (!gateway.is_v4()) return netlink::solicitation_probe(link.mac, gateway);
  for (const netlink::LinkAddress& one : node.addresses(link)) {
    if (one.cidr.ip.is_v4()) return netlink::arp_request(link.mac, one.cidr.ip, gateway);
  }
  return netlink::arp_probe(link.mac, gateway);
}

bool answers_on(netlink::RouteSocket& node, const netlink::Link& link, const Ip& gateway) {
  SegmentSocket socket(
      netlink::NetNs::current(), link.index,
      gateway.is_v4() ? SegmentSocket::Protocol::kArp : SegmentSocket::Protocol::kIpv6);
  for (int attempt = 0; attempt < 2; ++attempt) {
    socket.send(request_for(gateway, node, link));
    const auto is_gateway = [&](const netlink::NeighbourClaim& claim) {
      return claim.address == gateway && claim.owner != link.mac;
    };
    constexpr auto kMostSilence = kArpPatience / 2;
    if (socket.claim_until(SegmentSocket::Clock::now() + kMostSilence, is_gateway)) return true;
  }
  return false;
}

// Whether somebody on the link has the address: by what the node knows, or by what is answered.
bool answers(netlink::RouteSocket& node, const netlink::Link& link, const Ip& gateway) {
  constexpr std::uint16_t kReachable = 2;  // NUD_REACHABLE
  const auto known = netlink::find_neighbour(node, link.index, gateway);
  if (known && (known->is_fixed() || known->state == kReachable)) return true;
  if ((netlink::settings_of(node, link).flags & kNoArp) != 0) return true;  // nobody is asked there
  try {
    return answers_on(node, link, gateway);
  } catch (const netlink::Error&) {  // a link that takes no such packets: nothing is known
    return true;
  }
}

bool works(const netlink::Link& link) {
  return link.up && link.oper_state != netlink::OperState::kDown &&
         link.oper_state != netlink::OperState::kLowerLayerDown;
}

std::optional<doctor::Finding> silent_hop(netlink::RouteSocket& node, const LinkRoute& hop) {
  const auto link = node.find(hop.link);
  if (!link || !hop.gateway || !works(*link) || link->mac.is_zero()) return std::nullopt;
  const Ip& gateway = *hop.gateway;
  const auto path = gateway.is_link_local() ? std::nullopt : node.path_to(gateway);
  doctor::Finding out{.level = doctor::Level::kError,
                      .what = {},
                      .why = "pods reach no host beyond the node",
                      .remedy = {}};
  if (path && path->local) {
    out.what =
        cat("the node takes its gateway ", gateway.str(), " for itself: it has that address");
    out.remedy = cat("ip ", gateway.is_v4() ? "" : "-6 ", "route show table local ", gateway.str());
    return out;
  }
  if (answers(node, *link, gateway)) return std::nullopt;
  out.what = cat("the node's gateway ", gateway.str(), " has no MAC address on '",
                 printable(link->name), "': nobody there answers ",
                 gateway.is_v4() ? "ARP" : "neighbour solicitations", " for it");
  out.remedy = cat("ip neigh show dev ", doctor::quoted(link->name));
  return out;
}

}  // namespace

doctor::Findings lost_ways_out(const std::vector<Subject>& subjects, const std::vector<bool>& asked,
                               const NodeFacts& node) {
  const doctor::Names pods = led_out(subjects, asked, Family::kIpv4);
  doctor::Findings out;
  if (node.v4 || pods.empty()) return out;
  netlink::RouteSocket socket;
  for (const netlink::LinkAddress& one : socket.addresses()) {
    const auto link = one.cidr.ip.is_v4() ? socket.find(one.link) : std::nullopt;
    if (!link || works(*link) || link->loopback || is_of_pods(one, subjects)) continue;
    out.push_back(
        {.level = doctor::Level::kError,
         .what = cat("the node has no default route, and '", printable(link->name), "', which has ",
                     one.cidr.ip.str(), ", is ", link->up ? "without a carrier" : "down"),
         .why = "pods reach no host beyond the node",
         .remedy = link->up ? cat("ip -d link show dev ", doctor::quoted(link->name))
                            : up_with_route(*link),
         .lines = pods});
  }
  return out;
}

doctor::Findings silent_ways_out(const std::vector<Subject>& subjects,
                                 const std::vector<bool>& asked) {
  doctor::Findings out;
  netlink::RouteSocket node;
  for (const Family family : netlink::kFamilies) {
    const doctor::Names pods = led_out(subjects, asked, family);
    const auto route = pods.empty() ? std::nullopt : default_route(node, family);
    if (!route) continue;
    const std::string refusal = netlink::refusal_of(*route);
    if (!refusal.empty()) {
      const std::string text = cat(refusal, " default metric ", route->priority);
      out.push_back({.level = doctor::Level::kError,
                     .what = cat("the node's route '", refusal, " default' drops packets"),
                     .why = "pods reach no host beyond the node",
                     .remedy = cat("ip ", family == Family::kIpv4 ? "" : "-6 ", "route del ", text),
                     .lines = pods});
    }
    for (const LinkRoute& hop : netlink::each_hop(*route)) {
      auto finding = refusal.empty() ? silent_hop(node, hop) : std::nullopt;
      if (!finding) continue;
      finding->lines = pods;
      out.push_back(*std::move(finding));
    }
  }
  return out;
}

}  // namespace tool::probe

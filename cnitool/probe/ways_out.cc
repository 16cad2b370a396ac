#include "cnitool/probe/ways_out.h"

#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "cnitool/route_back.h"
#include "netlink/address_claim.h"
#include "netlink/nf/conntrack.h"
#include "netlink/nf/socket.h"
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

// A broadcast for it by the node's own address there. Without one a router that boots would take
// that of IPv6 for a host with its address (RFC 4862): empty.
std::optional<Bytes> request_for(const Ip& gateway, netlink::RouteSocket& node,
                                 const netlink::Link& link) {
  for (const netlink::LinkAddress& one : node.addresses(link)) {
    const Ip& own = one.cidr.ip;
    if (gateway.is_v4() && own.is_v4()) return netlink::arp_request(link.mac, own, gateway);
    const bool is_usable = own.is_link_local() && !one.tentative && !gateway.is_v4();
    if (is_usable && !own.is_v4()) return netlink::solicitation(link.mac, own, gateway);
  }
  return gateway.is_v4() ? std::optional(netlink::arp_probe(link.mac, gateway)) : std::nullopt;
}

bool answers_on(netlink::RouteSocket& node, const netlink::Link& link, const Ip& gateway) {
  const auto request = request_for(gateway, node, link);
  if (!request) return true;  // nothing is known
  SegmentSocket socket(
      netlink::NetNs::current(), link.index,
      gateway.is_v4() ? SegmentSocket::Protocol::kArp : SegmentSocket::Protocol::kIpv6);
  for (int attempt = 0; attempt < 2; ++attempt) {
    socket.send(*request);
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

doctor::Findings dead_links(const std::vector<Subject>& subjects, const doctor::Names& pods,
                            netlink::RouteSocket& socket) {
  doctor::Findings out;
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

// In any table: rules decide who is routed by one.
bool has_default(netlink::RouteSocket& node, Family family) {
  return std::ranges::any_of(node.all_routes(family), [](const LinkRoute& one) {
    return one.dst.is_default() && netlink::refusal_of(one).empty();
  });
}

const Subject* pod_with(const Ip& ip, const std::vector<Subject>& subjects,
                        const std::vector<bool>& asked) {
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    if (!asked[i] || !leads_out(subjects[i], ip.family())) continue;
    if (address_of(subjects[i], ip.family()) == ip) return &subjects[i];
  }
  return nullptr;
}

std::vector<netlink::nf::Flow> tracked(Family family) {
  std::vector<netlink::nf::Flow> out;
  auto socket = netlink::nf::NfSocket::find();
  if (!socket) return out;
  for (const int protocol : {IPPROTO_TCP, IPPROTO_UDP}) {
    const auto some = netlink::nf::flows(
        *socket, {.family = family, .protocol = static_cast<std::uint8_t>(protocol)});
    out.insert(out.end(), some.begin(), some.end());
  }
  return out;
}

// Of a link that works, and went down and up again.
std::string lost_route_back(const std::vector<Subject>& subjects, Family family,
                            netlink::RouteSocket& node) {
  for (const netlink::LinkAddress& one : node.addresses()) {
    const auto link = one.cidr.ip.is_v4() ? node.find(one.link) : std::nullopt;
    if (!link || !works(*link) || link->loopback || is_of_pods(one, subjects)) continue;
    const std::string back = family == Family::kIpv4 ? route_back(*link) : std::string();
    if (!back.empty()) return back;
  }
  return cat("restart what manages the uplink, or ", family == Family::kIpv4 ? "ip" : "ip -6",
             " route add default via GATEWAY dev LINK");
}

// The kernel tracks no connection that it could not send on: there was a route.
doctor::Finding without_default(const std::vector<Subject>& subjects,
                                const std::vector<bool>& asked, Family family,
                                netlink::RouteSocket& node) {
  const std::string none =
      cat("the node has no default route for ", family == Family::kIpv4 ? "IPv4" : "IPv6");
  const auto routes = node.all_routes(family);
  std::set<std::string> lines;
  for (const netlink::nf::Flow& one : tracked(family)) {
    const Ip& host = one.original.destination;
    const Subject* const pod = pod_with(one.original.source, subjects, asked);
    const bool is_reached = std::ranges::any_of(
        routes, [&](const LinkRoute& route) { return route.dst.contains(host); });
    if (pod == nullptr || is_reached || host.is_link_local() || host.is_multicast()) continue;
    lines.insert(cat(pod->name, " with ", host.str()));
  }
  if (lines.empty()) {
    return {.level = doctor::Level::kNote,
            .what = cat("whether pods reach hosts beyond the node was not asked: ", none)};
  }
  return {.level = doctor::Level::kError,
          .what = cat(none, ", and pods have connections to hosts without a route"),
          .why = "pods reach no host beyond the node",
          .remedy = lost_route_back(subjects, family, node),
          .lines = {lines.begin(), lines.end()}};
}

}  // namespace

doctor::Findings lost_ways_out(const std::vector<Subject>& subjects, const std::vector<bool>& asked,
                               const NodeFacts& node) {
  doctor::Findings out;
  for (const Family family : netlink::kFamilies) {
    const doctor::Names pods = led_out(subjects, asked, family);
    netlink::RouteSocket socket;
    if (node.uplink(family) || pods.empty() || has_default(socket, family)) continue;
    if (family == Family::kIpv4) out = dead_links(subjects, pods, socket);
    if (!out.empty()) return out;
    out.push_back(without_default(subjects, asked, family, socket));
    // A node without IPv6 may have networks of both families.
    if (family == Family::kIpv6 && out.back().level == doctor::Level::kNote) out.pop_back();
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

#include <algorithm>
#include <map>
#include <tuple>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/networks.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/doctor/routes.h"

// Subnets of networks that are elsewhere, too: in another network, or behind a route of the node.
namespace tool::doctor {

namespace {

using netlink::Cidr;
using netlink::LinkRoute;

constexpr std::uint8_t kOfKernel = 2;  // RTPROT_KERNEL

// A bridge without ports that no network names: of one that was removed.
bool is_left(const Node& node, const netlink::Link& link) {
  return link.kind == "bridge" &&
         find_by(bridge_networks(node), &BridgeNetwork::bridge, link.name) == nullptr &&
         find_by(node.links, &netlink::Link::master, link.index) == nullptr;
}

// A link of a network of this node: its route is no stranger's.
bool is_of_network(const Node& node, const netlink::Link& link) {
  for (const BridgeNetwork& one : bridge_networks(node)) {
    if (link.name == one.bridge || link.name == cat(one.bridge, ".", one.vlan)) return true;
  }
  return std::ranges::any_of(node.attachments, [&](const AttachmentState& one) {
    return link.alias.starts_with(one.key.tag());
  });
}

// Names of /etc/iproute2/rt_protos, by which `ip route` shows and takes them.
std::string protocol_text(std::uint8_t protocol) {
  static const std::map<std::uint8_t, const char*> kNames{
      {1, "redirect"}, {2, "kernel"}, {3, ""},       {4, "static"}, {9, "ra"},    {11, "zebra"},
      {12, "bird"},    {16, "dhcp"},  {42, "babel"}, {186, "bgp"},  {188, "ospf"}};
  const auto it = kNames.find(protocol);
  const std::string name = it == kNames.end() ? cat(static_cast<unsigned>(protocol)) : it->second;
  return name.empty() ? "" : cat(" proto ", name);
}

std::string hop_text(const Node& node, const LinkRoute& hop) {
  const netlink::Link* const link = node.link(hop.link);
  return cat(hop.gateway ? cat(" via ", hop.gateway->str()) : "",
             link == nullptr ? "" : cat(" dev ", link->name));
}

// "10.22.0.0/25 via 192.0.2.1 dev eth0 proto static metric 100", as `ip route` shows and takes it.
std::string route_text(const Node& node, const Foreign& foreign) {
  const LinkRoute& route = foreign.route();
  const std::string refusal = netlink::refusal_of(route);
  std::string out = cat(refusal, refusal.empty() ? "" : " ", route.dst.str());
  if (foreign.hops.size() == 1 && refusal.empty()) out += hop_text(node, route);
  out += protocol_text(route.protocol);
  if (route.priority != 0) out += cat(" metric ", route.priority);
  if (foreign.hops.size() == 1) return out;
  for (const LinkRoute* hop : foreign.hops) out += cat(" nexthop", hop_text(node, *hop));
  return out;
}

}  // namespace

std::vector<Foreign> foreign_routes(const Node& node, const std::set<int>& own) {
  std::vector<Foreign> out;
  std::map<std::tuple<Cidr, std::uint32_t, std::uint8_t>, std::size_t> known;
  const auto add = [&](const LinkRoute& route, std::size_t place) {
    const bool is_own = own.contains(route.link) && !route.gateway;
    if (route.table != kMainTable || route.dst.is_default() || is_own) return;
    const auto key = std::tuple(route.dst.network(), route.priority, route.protocol);
    const auto [it, is_new] = known.emplace(key, out.size());
    if (is_new) out.push_back({{}, place});
    out[it->second].hops.push_back(&route);
  };
  for (std::size_t i = 0; i < node.routes.size(); ++i) add(node.routes[i], i);
  for (const LinkRoute& route : node.refusals) {
    out.push_back({{&route}, node.routes.size()});
    if (route.table != kMainTable || route.dst.is_default()) out.pop_back();
  }
  return out;
}

std::string removal_of(const Node& node, const Foreign& foreign) {
  const bool is_v4 = foreign.route().dst.ip.is_v4();
  return cat(is_v4 ? "ip route del " : "ip -6 route del ", route_text(node, foreign));
}

namespace {

// Whether the network has a route of its own to the same addresses, which the kernel prefers.
bool loses(const Node& node, const Foreign& foreign, const std::set<int>& own) {
  const LinkRoute& route = foreign.route();
  for (std::size_t i = 0; i < node.routes.size(); ++i) {
    const LinkRoute& one = node.routes[i];
    if (one.table != kMainTable || one.gateway || !own.contains(one.link)) continue;
    if (one.dst.network() != route.dst.network() || one.priority > route.priority) continue;
    if (one.priority < route.priority || i < foreign.place) return true;
  }
  return false;
}

// The kernel made it for an address that a link has.
bool is_connected(const LinkRoute& route) {
  return netlink::refusal_of(route).empty() && route.protocol == kOfKernel && !route.gateway;
}

std::string why_of(const Node& node, const Foreign& foreign) {
  const LinkRoute& route = foreign.route();
  if (!netlink::refusal_of(route).empty()) return "packets to pods are dropped";
  if (!route.gateway) return "packets to pods are sent on that route";
  const std::string to = cat("packets to pods are sent to ", route.gateway->str(),
                             hop_text(node, {.dst = route.dst, .link = route.link}));
  const bool is_of_program = route.protocol > 4;  // RTPROT_STATIC
  return is_of_program ? cat(to, "; the program that made the route may make it again") : to;
}

// A route of a link's own address stays with the address, and one of another network has its pods.
std::string remedy_for(const Node& node, const Subnet& subnet, const Foreign& foreign) {
  const LinkRoute& route = foreign.route();
  const netlink::Link* const link = node.link(route.link);
  if (link != nullptr && is_left(node, *link)) return cat("ip link del ", link->name);
  const bool is_of_pods = link != nullptr && !route.gateway && is_of_network(node, *link);
  if (is_connected(route) || is_of_pods) return other_subnet(node, subnet);
  return removal_of(node, foreign);
}

void check_route(const Node& node, const Subnet& subnet, const Foreign& foreign, Findings& out) {
  const Cidr& cidr = subnet.range.subnet;
  const LinkRoute& route = foreign.route();
  if (!overlap(route.dst, cidr)) return;
  const bool wider = route.dst.prefix < cidr.prefix;
  // Addresses that no pod can have: flannel-v6.1 has the first one of the subnet.
  const bool is_beside =
      !AddressSpan::of(route.dst).overlaps({subnet.range.start, subnet.range.end});
  const bool takes = !wider && !loses(node, foreign, own_links(node, subnet.network));
  if (!wider && (is_beside || (!takes && !is_connected(route)))) return;
  if (wider && !netlink::refusal_of(route).empty()) return;  // for what nobody has
  out.push_back({takes ? Level::kError : Level::kWarning,
                 cat("subnet ", cidr.str(), " of network '", subnet.network,
                     "' overlaps the node's route ", route_text(node, foreign)),
                 takes   ? why_of(node, foreign)
                 : wider ? "pods and node cannot reach hosts with these addresses on that route"
                         : "the node has two routes to the addresses, and uses the first one",
                 wider ? other_subnet(node, subnet) : remedy_for(node, subnet, foreign),
                 {subnet.network}});
}

}  // namespace

// Adds what living pods and the bridge need: the bridge keeps the earlier gateway, with which ADD
// of any pod fails.
std::string other_subnet(const Node& node, const Subnet& subnet, const std::string& key) {
  const std::string file =
      subnet.file.empty() ? cat("the config of network '", subnet.network, "'") : subnet.file;
  std::string out = cat("in ", file, " set another \"", key, "\" in \"ipam\"");
  for (const netlink::LinkAddress& one : node.addresses) {
    const netlink::Link* const link = node.link(one.link);
    if (link == nullptr || !own_links(node, subnet.network).contains(one.link)) continue;
    if (!overlap(one.cidr, subnet.range.subnet)) continue;
    return cat(out, ", remove the pods of network '", subnet.network, "', ip addr del ",
               one.cidr.str(), " dev ", link->name, ", and start the pods again");
  }
  return out;
}

// Checks networks whose bridge has the gateway, so that the node has a route of its own to it.
Findings check_routes(const Node& node) {
  Findings out;
  std::set<std::string> routed;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    if (one.is_gateway) routed.insert(one.list->name);
  }
  std::set<std::pair<std::string, Cidr>> said;
  for (const Subnet& subnet : subnets(node)) {
    if (!routed.contains(subnet.network)) continue;
    for (const Foreign& one : foreign_routes(node, own_links(node, subnet.network))) {
      Findings found;
      check_route(node, subnet, one, found);
      if (found.empty() || !said.emplace(found.front().what, one.route().dst).second) continue;
      out.push_back(std::move(found.front()));
    }
  }
  return out;
}

}  // namespace tool::doctor

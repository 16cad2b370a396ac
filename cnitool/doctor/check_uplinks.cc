#include <netinet/in.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/delegate.h"
#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/look.h"
#include "cnitool/doctor/networks.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/json_at.h"
#include "cnitool/known_plugins.h"
#include "cnitool/route_back.h"
#include "netlink/nf/socket.h"

// The links by which pods reach other hosts: uplinks of the node, masters of macvlan and its kind,
// ports of bridges that are on the wire.
namespace tool::doctor {

namespace {

namespace nf = netlink::nf;
using netlink::Family;
using netlink::Link;
using netlink::LinkRoute;
using netlink::OperState;

/// A link by which nothing goes.
struct Dead {
  const Link* link = nullptr;
  std::string what;  ///< "is down"
};

// A link of a pod or a virtual machine is no uplink. Names of host veths begin so, whoever made
// them.
bool is_of_pod(const Link& link) {
  return link.kind == "tun" ||
         (link.kind == "veth" && (link.name.starts_with("veth") || !link.alias.empty()));
}

std::vector<const Link*> outer_ports(const Node& node, const Link& bridge) {
  std::vector<const Link*> out;
  for (const Link& one : node.links) {
    if (one.master == bridge.index && !is_of_pod(one)) out.push_back(&one);
  }
  return out;
}

std::optional<Dead> death_of(const Node& node, const Link& link, unsigned depth = 0);

// The first of the bridge's ports on the wire, if none of them works.
std::optional<Dead> death_of_ports(const Node& node, const Link& bridge, unsigned depth) {
  std::optional<Dead> out;
  for (const Link* const port : outer_ports(node, bridge)) {
    const auto dead = death_of(node, *port, depth);
    if (!dead) return std::nullopt;
    if (!out) out = dead;
  }
  return out;
}

// The link that is to blame may be one that it stands on.
std::optional<Dead> death_of(const Node& node, const Link& link, unsigned depth) {
  constexpr unsigned kMaxDepth = 8;
  const bool has_parent = link.parent_index != 0 && !link.parent_nsid && depth < kMaxDepth;
  const Link* const parent = has_parent ? node.link(link.parent_index) : nullptr;
  if (parent != nullptr) {
    if (const auto dead = death_of(node, *parent, depth + 1)) return dead;
  }
  if (!link.up) return Dead{&link, "is down"};
  if (link.kind == "bridge" && depth < kMaxDepth) {
    if (const auto dead = death_of_ports(node, link, depth + 1)) return dead;
  }
  switch (link.oper_state) {
    case OperState::kDown:
    case OperState::kLowerLayerDown:
    case OperState::kNotPresent:
      return Dead{&link, "has no carrier"};
    case OperState::kDormant:
      return Dead{&link, "is dormant"};
    default:
      return std::nullopt;
  }
}

// A link that is up lacks its cable, or the other end of it.
std::string remedy_for(const Dead& dead) {
  return dead.what == "is down" ? cat("ip link set ", dead.link->name, " up")
                                : cat("ip -d link show dev ", dead.link->name);
}

/// The default route that counts.
struct DefaultRoute {
  std::vector<const LinkRoute*> hops;
  std::uint32_t priority = std::numeric_limits<std::uint32_t>::max();
};

DefaultRoute default_route(const Node& node, Family family) {
  DefaultRoute out;
  for (const LinkRoute& route : node.routes) {
    if (!route.dst.is_default() || route.dst.ip.family() != family || route.table != kMainTable) {
      continue;
    }
    if (route.priority < out.priority) out = {{}, route.priority};
    if (route.priority == out.priority) out.hops.push_back(&route);
  }
  return out;
}

// A link that has an address and does not work: the default route went with it. One that is down
// has no addresses of IPv6 any more.
std::optional<Dead> lost_uplink(const Node& node, Family family) {
  const bool has_v4 = !uplinks(node, Family::kIpv4).empty();
  for (const netlink::LinkAddress& address : node.addresses) {
    if (address.cidr.ip.is_link_local()) continue;
    if (address.cidr.ip.family() != family && (family == Family::kIpv4 || has_v4)) continue;
    const Link* const link = node.link(address.link);
    if (link == nullptr || link->loopback || is_of_pod(*link)) continue;
    if (find_by(bridge_networks(node), &BridgeNetwork::bridge, link->name) != nullptr) continue;
    const bool has_wire = link->kind != "bridge" || !outer_ports(node, *link).empty();
    if (!has_wire) continue;
    if (auto dead = death_of(node, *link)) return dead;
  }
  return std::nullopt;
}

const char* family_text(Family family) { return family == Family::kIpv4 ? "IPv4" : "IPv6"; }

const char* loss_of(Family family) {
  return family == Family::kIpv4
             ? "pods cannot reach other networks, and replies from hostPorts have no route"
             : "pods cannot reach other IPv6 networks";
}

const AttachmentState* pod_with(const Node& node, const netlink::Ip& ip) {
  const auto found = std::ranges::find_if(node.attachments, [&](const AttachmentState& one) {
    const cni::NetworkList* const list = node.network(one.key.network);
    return one.is_alive() && node.which.has(one.key) && (list == nullptr || is_routed(*list)) &&
           std::ranges::any_of(one.result.ips, [&](const auto& own) { return own.cidr.ip == ip; });
  });
  return found == node.attachments.end() ? nullptr : &*found;
}

bool is_reached(const Node& node, const netlink::Ip& ip) {
  return ip.is_link_local() || ip.is_loopback() ||
         std::ranges::any_of(node.routes, [&](const auto& one) { return one.dst.contains(ip); }) ||
         std::ranges::any_of(node.addresses, [&](const auto& one) { return one.cidr.ip == ip; });
}

// Pods and the hosts without a route with which they have connections: the kernel tracks none that
// it could not send on, so that there was a route before. "web-0 (eth0) with 192.0.2.7".
Names stranded_pods(const Node& node, Family family) {
  std::set<std::string> out;
  for (const netlink::nf::Flow& one : node.stranded) {
    if (one.original.source.family() != family) continue;
    const AttachmentState* const sender = pod_with(node, one.original.source);
    const AttachmentState* const pod =
        sender != nullptr ? sender : pod_with(node, one.reply.source);
    const auto& other = sender != nullptr ? one.original.destination : one.original.source;
    if (pod == nullptr || is_reached(node, other)) continue;
    out.insert(cat(name_of(node, pod->key), " with ", other.str()));
  }
  return {out.begin(), out.end()};
}

// Of a link that works, which went down and up again.
std::string known_route(const Node& node, Family family) {
  for (const netlink::LinkAddress& address : node.addresses) {
    const Link* const link = node.link(address.link);
    const bool is_uplink = link != nullptr && link->up && !link->loopback && !is_of_pod(*link);
    if (family != Family::kIpv4 || !is_uplink || !address.cidr.ip.is_v4()) continue;
    const std::string back = route_back(*link);
    if (!back.empty()) return back;
  }
  return cat(family == Family::kIpv4 ? "ip" : "ip -6", " route add default via GATEWAY dev LINK");
}

Finding lacking_route(const Node& node, Family family) {
  const std::string none = cat("the node has no default route for ", family_text(family));
  const Names networks = networks_with(node, family);
  if (const auto dead = lost_uplink(node, family)) {
    return {Level::kError, cat("link '", dead->link->name, "' ", dead->what, ", and ", none),
            loss_of(family),
            dead->what == "is down" && family == Family::kIpv4 ? up_with_route(*dead->link)
                                                               : remedy_for(*dead),
            networks};
  }
  const Names stranded = stranded_pods(node, family);
  return {
      stranded.empty() ? Level::kWarning : Level::kError,
      stranded.empty()
          ? none
          : cat(none, ", and pods have connections to hosts without a route: ", some_of(stranded)),
      loss_of(family), known_route(node, family), networks};
}

// "unreachable default" with the largest metric is the kernel's own for IPv6.
const LinkRoute* refusing_default(const Node& node, Family family, std::uint32_t priority) {
  const auto it = std::ranges::find_if(node.refusals, [&](const LinkRoute& one) {
    return one.dst.is_default() && one.dst.ip.family() == family && one.table == kMainTable &&
           one.priority < priority;
  });
  return it == node.refusals.end() ? nullptr : &*it;
}

void check_default_route(const Node& node, Family family, Findings& out) {
  const DefaultRoute found = default_route(node, family);
  const Names networks = networks_with(node, family);
  if (const LinkRoute* const route = refusing_default(node, family, found.priority)) {
    const std::string text = cat(netlink::refusal_of(*route), " default",
                                 route->priority == 0 ? "" : cat(" metric ", route->priority));
    out.push_back({Level::kError,
                   cat("the default route for ", family_text(family), " is '", text, "'"),
                   loss_of(family),
                   cat(family == Family::kIpv4 ? "ip" : "ip -6", " route del ", text), networks});
    return;
  }
  if (found.hops.empty()) return out.push_back(lacking_route(node, family));
  std::optional<Dead> dead;
  std::size_t count = 0;
  for (const LinkRoute* const hop : found.hops) {
    const Link* const link = node.link(hop->link);
    auto one = link == nullptr ? std::nullopt : death_of(node, *link);
    if (!one) continue;
    ++count;
    if (!dead) dead = one;
  }
  if (!dead) return;
  out.push_back({count == found.hops.size() ? Level::kError : Level::kWarning,
                 cat("link '", dead->link->name, "' ", dead->what, ", and the default route for ",
                     family_text(family), " leads there"),
                 loss_of(family), remedy_for(*dead), networks});
}

// The link on the wire that the network's interfaces stand on; empty: none, or one in the pod.
std::string master_of(const Node& node, const cni::NetworkList& list) {
  const cni::PluginConf made = effective(list.plugins.front());
  const bool has_master = facts_of(made.type).has(cni::Fact::kMaster);
  if (!has_master || !made.conf->is_object() || is_true(*made.conf, "linkInContainer")) return {};
  const std::string named = text_at(*made.conf, "master");
  return named.empty() ? default_link(node) : named;
}

// An error where pods are cut; else the next one is.
void add_dead(const Node& node, const std::string& network, const Dead& dead,
              const std::string& role, Findings& out) {
  out.push_back({has_pods(node, network) ? Level::kError : Level::kWarning,
                 cat("link '", dead.link->name, "' ", dead.what, ": ", role),
                 cat("pods of network '", network, "' reach no other host by it"),
                 remedy_for(dead),
                 {network}});
}

void check_master(const Node& node, const cni::NetworkList& list, Findings& out) {
  const Link* const link = node.link(master_of(node, list));
  const auto dead = link == nullptr ? std::nullopt : death_of(node, *link);
  if (!dead) return;
  const bool is_itself = dead->link == link;
  add_dead(node, list.name, *dead,
           is_itself
               ? cat("it is the master of network '", list.name, "'")
               : cat("'", link->name, "', the master of network '", list.name, "', stands on it"),
           out);
}

// Looks at all tables: rules decide who is routed by one.
bool has_default_route(const Node& node, Family family) {
  return std::ranges::any_of(node.routes, [family](const netlink::LinkRoute& route) {
    return route.dst.is_default() && route.dst.ip.family() == family;
  });
}

}  // namespace

std::string default_link(const Node& node) {
  for (const Family family : netlink::kFamilies) {
    const DefaultRoute route = default_route(node, family);
    const Link* const link = route.hops.empty() ? nullptr : node.link(route.hops.front()->link);
    if (link != nullptr) return link->name;
  }
  return {};
}

Findings check_uplink(const Node& node) {
  Findings out;
  const bool v4 = uses(node, Family::kIpv4);
  if (v4) check_default_route(node, Family::kIpv4, out);
  // A node without any IPv6 beyond its links may have networks that are of both families.
  const bool has_v6 =
      std::ranges::any_of(
          node.routes, [](const auto& route) { return !route.dst.ip.is_v4() && route.gateway; }) ||
      !stranded_pods(node, Family::kIpv6).empty();
  if (uses(node, Family::kIpv6) && (!v4 || has_v6)) check_default_route(node, Family::kIpv6, out);
  return out;
}

// A bridge without a gateway of the node has it on the wire.
Findings check_masters(const Node& node) {
  Findings out;
  for (const cni::NetworkList& list : node.networks.lists) {
    if (!list.plugins.empty()) check_master(node, list, out);
  }
  for (const BridgeNetwork& one : bridge_networks(node)) {
    const Link* const bridge = node.link(one.bridge);
    if (one.is_gateway || bridge == nullptr || !bridge->up) continue;
    const auto dead = death_of_ports(node, *bridge, 0);
    if (!dead) continue;
    add_dead(node, one.list->name, *dead,
             cat("no other port of bridge '", one.bridge, "' is on the wire"), out);
  }
  return out;
}

bool has_masters(const Node& node) {
  return std::ranges::any_of(node.networks.lists,
                             [&](const cni::NetworkList& list) {
                               return !list.plugins.empty() && !master_of(node, list).empty();
                             }) ||
         std::ranges::any_of(bridge_networks(node),
                             [](const BridgeNetwork& one) { return !one.is_gateway; });
}

std::vector<nf::Flow> stranded_connections(const Node& node) try {
  std::vector<nf::Flow> out;
  for (const Family family : netlink::kFamilies) {
    if (has_default_route(node, family) || !uses(node, family)) continue;
    auto socket = nf::NfSocket::find();
    if (!socket) return out;
    for (const int protocol : {IPPROTO_TCP, IPPROTO_UDP}) {
      std::ranges::copy(
          nf::flows(*socket, {.family = family, .protocol = static_cast<std::uint8_t>(protocol)}),
          std::back_inserter(out));
    }
  }
  return out;
} catch (const netlink::Error&) {
  return {};  // of root alone: the default route is missed all the same
}

}  // namespace tool::doctor

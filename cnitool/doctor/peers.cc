#include "cnitool/doctor/peers.h"

#include <algorithm>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/kubernetes/checks.h"
#include "cnitool/node_object.h"
#include "cnitool/output.h"
#include "libcni/common/error.h"
#include "netlink/route/socket.h"

// Routes to the pods of other nodes.
namespace tool::doctor {

namespace {

using netlink::MatchedRoute;

// The link carries packets to the other node inside of other packets.
bool is_tunnel(const Node& node, const MatchedRoute& way) {
  constexpr const char* kKinds[] = {"vxlan", "wireguard", "geneve", "ipip",
                                    "sit",   "gre",       "ip6tnl", "tun"};
  const netlink::Link* const link = node.link(way.route.link);
  return link != nullptr && std::ranges::find(kKinds, link->kind) != std::end(kKinds);
}

// A default route does not know the subnet, and the route of an own network is not to the peer.
bool is_missing(const Node& node, const PeerSubnet& one) {
  if (!one.to_pods || one.to_pods->local || one.to_pods->route.dst.is_default()) return true;
  const netlink::Link* const link = node.link(one.to_pods->route.link);
  const bool is_own = link != nullptr && link->kind == "bridge" && !one.to_pods->route.gateway;
  return is_own && !is_tunnel(node, *one.to_pods);
}

// "ip -6 route add 10.244.2.0/24 via 192.0.2.2 dev eth0"
std::string route_command(const Node& node, const PeerSubnet& one, const char* verb) {
  const netlink::Link* const link = node.link(one.to_node->route.link);
  const netlink::Ip gateway = one.to_node->route.gateway.value_or(*one.node);
  return cat(gateway.is_v4() ? "ip route " : "ip -6 route ", verb, " ", one.subnet.str(), " via ",
             gateway.str(), link == nullptr ? "" : cat(" dev ", link->name));
}

std::string route_text(const Node& node, const netlink::LinkRoute& route) {
  const netlink::Link* const link = node.link(route.link);
  return cat(route.gateway ? cat("via ", route.gateway->str(), " ") : "", "dev ",
             link == nullptr ? "?" : link->name);
}

std::string node_text(const Peer& peer, const PeerSubnet& one) {
  return cat("node '", peer.name, "' (", one.node->str(), ")");
}

void check_route(const Node& node, const Peer& peer, const PeerSubnet& one, Findings& out) {
  if (!one.node) {
    out.push_back({Level::kUnknown,
                   cat("node '", peer.name, "' has pods ", one.subnet.str(),
                       ", and no InternalIP of that family"),
                   "the route to these pods is not compared"});
    return;
  }
  const std::string pods = cat("pods ", one.subnet.str(), " of ", node_text(peer, one));
  if (!one.to_node) {
    out.push_back({Level::kError, cat("there is no route to ", node_text(peer, one)),
                   "its pods cannot be reached", cat("ip route get ", one.node->str())});
    return;
  }
  const auto& gateway = one.to_node->route.gateway;
  if (is_missing(node, one)) {
    const bool is_blocked = !one.to_pods && !uplinks(node, one.subnet.ip.family()).empty();
    out.push_back({Level::kError, cat("there is no route to ", pods),
                   gateway ? cat("the node is behind router ", gateway->str(),
                                 ", which needs a route to the subnet via ", one.node->str())
                           : "packets to these pods leave by another way, or are dropped",
                   route_command(node, one, is_blocked ? "replace" : "add")});
    return;
  }
  const netlink::LinkRoute& route = one.to_pods->route;
  const bool leads_there = route.gateway == one.node || (gateway && route.gateway == gateway);
  if (leads_there || is_tunnel(node, *one.to_pods)) return;
  out.push_back({Level::kWarning, cat("the route to ", pods, " leads ", route_text(node, route)),
                 "another node or router gets the packets: a stale route, or one of another engine",
                 route_command(node, one, "replace")});
}

bool is_excepted(const BridgeNetwork& network, const netlink::Cidr& subnet) {
  return std::ranges::any_of(network.masq_except, [&](const auto& text) {
    const auto range = netlink::Cidr::parse(text);
    return range && range->contains(subnet.ip) && range->prefix <= subnet.prefix;
  });
}

void check_overlaps(const Peer& peer, const PeerSubnet& one, const netlink::Cidr& other,
                    const std::string& owner, Findings& out) {
  if (!overlap(one.subnet, other)) return;
  out.push_back({Level::kError,
                 cat("subnet ", one.subnet.str(), " of node '", peer.name, "' overlaps ",
                     other.str(), " of ", owner),
                 "packets reach the pods of one of the two nodes",
                 "give one of the nodes another subnet"});
}

Peer peer_of(const NodeObject& object, netlink::RouteSocket& socket) {
  Peer out{.name = object.name, .subnets = {}};
  for (const netlink::Cidr& one : object.pod_cidrs) {
    const auto node = std::ranges::find(object.addresses, one.ip.family(), &netlink::Ip::family);
    PeerSubnet subnet{.subnet = one.network()};
    subnet.to_pods = socket.match(subnet.subnet.ip.next().value_or(subnet.subnet.ip));
    if (node != object.addresses.end()) {
      subnet.node = *node;
      subnet.to_node = socket.match(*node);
    }
    out.subnets.push_back(std::move(subnet));
  }
  return out;
}

}  // namespace

Findings check_peer_routes(const Node& node) {
  Findings out;
  for (const Peer& peer : node.peers) {
    if (peer.is_this()) continue;
    for (const PeerSubnet& one : peer.subnets) check_route(node, peer, one, out);
  }
  return out;
}

Findings check_peer_subnets(const Node& node) {
  Findings out;
  for (auto peer = node.peers.begin(); peer != node.peers.end(); ++peer) {
    for (const PeerSubnet& one : peer->subnets) {
      for (auto other = node.peers.begin(); other != peer; ++other) {
        for (const PeerSubnet& theirs : other->subnets) {
          check_overlaps(*peer, one, theirs.subnet, cat("node '", other->name, "'"), out);
        }
      }
      if (peer->is_this()) continue;
      for (const Subnet& own : subnets(node)) {
        check_overlaps(*peer, one, own.range.subnet, cat("network '", own.network, "' here"), out);
      }
    }
  }
  return out;
}

// A pod that other nodes see by its own address: policies and logs there name it.
Findings check_peer_masquerade(const Node& node) {
  Findings out;
  for (const BridgeNetwork& network : routed_networks(node)) {
    if (!network.masquerades) continue;
    Names subnets;
    Names wanted = network.masq_except;
    for (const Peer& peer : node.peers) {
      for (const PeerSubnet& one : peer.subnets) {
        if (peer.is_this() || is_excepted(network, one.subnet)) continue;
        if (!uses(node, one.subnet.ip.family(), network.list->name)) continue;
        subnets.push_back(one.subnet.str());
        wanted.push_back(one.subnet.str());
      }
    }
    if (subnets.empty()) continue;
    out.push_back({Level::kWarning,
                   cat("network '", network.list->name,
                       "' masquerades packets to pods of peers: ", some_of(subnets)),
                   "the other node sees this node's address: network policies do not know the pod",
                   kubernetes::setting_of(network, "ipMasqExcept",
                                          cat("[\"", joined(wanted, "\",\""), "\"]")),
                   {network.list->name}});
  }
  return out;
}

bool Peer::is_this() const {
  return std::ranges::any_of(
      subnets, [](const PeerSubnet& one) { return one.to_node && one.to_node->local; });
}

std::vector<Peer> look_at_peers(const std::string& file) {
  const std::string source = source_of(file);
  netlink::RouteSocket socket;
  std::vector<Peer> out;
  for (const NodeObject& object : node_objects(input_from(file), source)) {
    if (!object.pod_cidrs.empty()) out.push_back(peer_of(object, socket));
  }
  if (!out.empty()) return out;
  throw cni::Error(cni::Code::kInvalidConfig, cni::cat(source, ": no Node has spec.podCIDRs"),
                   "another program gives out the subnets of pods, and knows the routes");
}

}  // namespace tool::doctor

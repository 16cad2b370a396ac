#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"

namespace tool::doctor {

namespace {

using netlink::Ip;

// Every pod may have these addresses: containerd attaches each one to "cni-loopback".
bool is_everybodys(const Ip& ip) { return ip.is_loopback() || ip.is_link_local(); }

// The links that the network itself routes its subnet through.
std::set<int> own_links(const Node& node, const std::string& network) {
  std::set<int> out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    if (one.list->name != network) continue;
    for (const std::string& name : {one.bridge, cat(one.bridge, ".", one.vlan)}) {
      if (const netlink::Link* const link = node.link(name)) out.insert(link->index);
    }
  }
  return out;
}

// A bridge without ports that no network names: of one that was removed.
bool is_left(const Node& node, const netlink::Link& link) {
  return link.kind == "bridge" &&
         find_by(bridge_networks(node), &BridgeNetwork::bridge, link.name) == nullptr &&
         find_by(node.links, &netlink::Link::master, link.index) == nullptr;
}

// A route to one address that no pod can have: flannel-v6.1 has the first one of the subnet.
bool is_beside(const netlink::Cidr& route, const cni::AddressRange& pods) {
  return route.prefix == route.ip.bits() && !pods.contains(route.ip);
}

// The network's pods, or who uses the node's route, would lose theirs by any command.
std::string other_subnet(const Subnet& subnet) {
  return cat("in ", subnet.file, " set another \"subnet\" in \"ipam\"; it applies to new pods");
}

// Pods of a network that has another name by now, or whose file was removed, in the range of
// another one, which has its own leases.
void add_of_other_networks(const Node& node, Findings& out) {
  std::map<std::pair<std::string, const Pool*>, std::vector<std::string>> found;
  for (const AttachmentState& one : node.attachments) {
    if (!one.is_alive() || !node.which.has(one.key)) continue;
    if (node.network(one.key.network) != nullptr) continue;
    for (const Pool& pool : node.pools) {
      const bool is_in = std::ranges::any_of(one.result.ips, [&](const cni::Address& address) {
        return std::ranges::any_of(
            pool.sets, [&](const auto& set) { return set.find(address.cidr.ip) != nullptr; });
      });
      if (is_in) found[{one.key.network, &pool}].push_back(name_of(node, one.key));
    }
  }
  for (const auto& [where, names] : found) {
    const auto& [network, pool] = where;
    out.push_back(
        {Level::kWarning,
         cat("network '", network, "', which no file names, has ",
             counted(names.size(), "attachment"), " in the range of network '", pool->network,
             "': ", some_of(names)),
         cat("network '", pool->network,
             "' has leases of its own: where it cannot see the pods, as "
             "on another node or bridge, it gives their addresses away"),
         cat("restart these pods, or in ", pool->file, " set \"name\": \"", network, "\""),
         {network, pool->network}});
  }
}

}  // namespace

Findings check_pools(const Node& node) {
  constexpr double kNearlyFull = 0.9;
  Findings out;
  for (const Pool& pool : node.pools) {
    for (const auto& set : pool.sets) {
      const std::uint64_t all = set.size();
      const std::uint64_t used = used_of(pool, set);
      if (static_cast<double>(used) < kNearlyFull * static_cast<double>(all)) continue;
      out.push_back(
          {used >= all ? Level::kError : Level::kWarning,
           cat("network '", pool.network, "': ", used, " of ", counted(all, "address"), " of ",
               some_of(subnets_in(set)), used == 1 ? " is" : " are", " allocated"),
           "a pod without address does not start; run GC for addresses of removed pods, "
           "or add a range to the network",
           collect(node, pool.network),
           {pool.network}});
    }
  }
  return out;
}

// Two runtimes that do not share the leases.
Findings check_held(const Node& node) {
  Findings out;
  std::map<Ip, const AttachmentState*> holders;
  for (const AttachmentState& one : node.attachments) {
    if (!one.is_alive()) continue;
    for (const cni::Address& address : one.result.ips) {
      const Ip& ip = address.cidr.ip;
      if (is_everybodys(ip)) continue;
      const auto [it, is_new] = holders.emplace(ip, &one);
      if (is_new || !(node.which.has(one.key) || node.which.has(it->second->key))) continue;
      out.push_back({Level::kError,
                     cat("address ", ip.str(), " belongs to ", it->second->key.str(), " and to ",
                         one.key.str()),
                     "packets reach only one of the two; restart one of the pods",
                     cat("cnitool list ", one.key.network),
                     {one.key.network, it->second->key.network}});
    }
  }
  add_of_other_networks(node, out);
  return out;
}

// Networks of one bridge may share a subnet, but no address of it.
Findings check_subnets(const Node& node) {
  Findings out;
  const auto all = subnets(node);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const Subnet& one = all[i];
      const Subnet& other = all[k];
      if (one.network == other.network || !overlap(one.range.subnet, other.range.subnet)) continue;
      const bool addresses = one.range.overlaps(other.range);
      if (!addresses && own_links(node, one.network) == own_links(node, other.network)) continue;
      out.push_back(
          {Level::kError,
           cat("subnet ", one.range.subnet.str(), " of network '", one.network, "' overlaps ",
               other.range.subnet.str(), " of network '", other.network, "'"),
           addresses ? "two pods can get the same address"
                     : "the node has two routes to the addresses and uses one",
           other_subnet(one),
           {one.network, other.network}});
    }
  }
  return out;
}

// Checks networks whose bridge has the gateway, so that the node has a route of its own to it.
Findings check_routes(const Node& node) {
  constexpr std::uint32_t kMain = 254;
  Findings out;
  std::set<std::string> said;
  std::set<std::string> routed;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    if (one.is_gateway) routed.insert(one.list->name);
  }
  for (const Subnet& subnet : subnets(node)) {
    if (!routed.contains(subnet.network)) continue;
    const netlink::Cidr& cidr = subnet.range.subnet;
    const auto own = own_links(node, subnet.network);
    for (const netlink::LinkRoute& route : node.routes) {
      const netlink::Link* const link = node.link(route.link);
      if (link == nullptr || link->loopback || own.contains(route.link)) continue;
      if (route.table != kMain || route.dst.is_default() || !overlap(route.dst, cidr)) continue;
      if (is_beside(route.dst, subnet.range)) continue;
      const std::string text = cat(route.dst.str(), " dev ", link->name);
      if (!said.insert(cat(subnet.network, " ", text)).second) continue;
      const bool wider = route.dst.prefix < cidr.prefix;
      out.push_back({wider ? Level::kWarning : Level::kError,
                     cat("subnet ", cidr.str(), " of network '", subnet.network,
                         "' overlaps the node's route ", text),
                     wider ? "pods and node cannot reach hosts with these addresses on that route"
                           : "packets to pods are sent on that route",
                     is_left(node, *link) ? cat("ip link del ", link->name) : other_subnet(subnet),
                     {subnet.network}});
    }
  }
  return out;
}

}  // namespace tool::doctor

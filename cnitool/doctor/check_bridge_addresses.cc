#include <algorithm>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/networks.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/json_at.h"

// Gateways on bridges: of a subnet that the network had earlier, or of none.
namespace tool::doctor {

namespace {

using netlink::Cidr;

/// A bridge and the networks whose gateways it has.
struct Carrier {
  const BridgeNetwork& network;
  const netlink::Link& link;
  std::vector<Cidr> present;
};

bool is_inside(const Cidr& address, const std::vector<Subnet>& all) {
  return std::ranges::any_of(
      all, [&](const Subnet& one) { return one.range.subnet.contains(address.ip); });
}

// Selects the subnets of a network, or of all networks of a bridge, which may share it.
struct Whose {
  std::string bridge, network;
};
std::vector<Subnet> subnets_of(const Node& node, const Whose& whose) {
  std::vector<Subnet> out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    if (one.bridge != whose.bridge) continue;
    if (!whose.network.empty() && one.list->name != whose.network) continue;
    for (const Subnet& subnet : subnets(node)) {
      if (subnet.network == one.list->name) out.push_back(subnet);
    }
  }
  return out;
}

bool is_gateway(const Cidr& address, const std::vector<Subnet>& all) {
  return std::ranges::any_of(all, [&](const Subnet& one) {
    return address == Cidr{one.range.gateway, one.range.subnet.prefix};
  });
}

// The gateway that the next ADD needs and the bridge lacks. The others of a set of ranges come with
// their pods.
std::vector<Cidr> missing_gateways(const Node& node, const Carrier& carrier) {
  std::vector<Cidr> out;
  for (const Pool& pool : node.pools) {
    if (pool.network != carrier.network.list->name) continue;
    for (const auto& set : pool.sets) {
      std::vector<Cidr> gateways;
      for (const auto& range : set.ranges) {
        gateways.push_back({range.gateway, range.subnet.prefix});
      }
      const bool has_one = std::ranges::any_of(gateways, [&](const Cidr& one) {
        return std::ranges::find(carrier.present, one) != carrier.present.end();
      });
      if (!has_one && !gateways.empty()) out.push_back(gateways.front());
    }
  }
  return out;
}

// Decides as the plugin bridge does: IPv6 addresses of several subnets may be on it.
const Cidr* in_the_way_of(const std::vector<Cidr>& missing, const Cidr& address) {
  const auto it = std::ranges::find_if(missing, [&](const Cidr& one) {
    if (one.ip.family() != address.ip.family()) return false;
    return address.ip.is_v4() || overlap(one, address);
  });
  return it == missing.end() ? nullptr : &*it;
}

// Pods that are attached to the bridge have it as their gateway, of whatever network.
Names pods_behind(const Node& node, const Cidr& gateway) {
  Names out;
  for (const AttachmentState& one : node.attachments) {
    const bool is_behind = std::ranges::any_of(
        one.result.ips, [&](const cni::Address& ip) { return gateway.contains(ip.cidr.ip); });
    if (one.is_alive() && is_behind) out.push_back(name_of(node, one.key));
  }
  return out;
}

// The bridge gets the new gateway beside that of pods which are to stay. In a cluster they are of
// no use: other nodes send packets to their addresses elsewhere.
std::string remedy_for(const Node& node, const Carrier& carrier, const Cidr& address,
                       const Cidr* missing) {
  const Names pods = pods_behind(node, address);
  const std::string removal = cat("ip addr del ", address.str(), " dev ", carrier.link.name);
  const bool has_ports = find_by(node.links, &netlink::Link::master, carrier.link.index) != nullptr;
  if (pods.empty() && (!has_ports || node.cluster != nullptr)) return removal;
  if (node.cluster == nullptr && missing != nullptr) {
    return cat("ip addr add ", missing->str(), " dev ", carrier.link.name);
  }
  return cat("remove the pods ", some_of(pods), ", then ", removal);
}

void check_address(const Node& node, const Carrier& carrier, const Cidr& address,
                   const std::vector<Cidr>& missing, Findings& out) {
  const BridgeNetwork& one = carrier.network;
  const Cidr* const wanted = in_the_way_of(missing, address);
  const bool is_stray =
      node.cluster != nullptr && !is_inside(address, subnets_of(node, {one.bridge, ""}));
  if (wanted == nullptr && !is_stray) return;
  const Names pods = pods_behind(node, address);
  const bool is_in = is_inside(address, subnets_of(node, {one.bridge, one.list->name}));
  out.push_back(
      {Level::kError,
       cat("bridge '", carrier.link.name, "' has address ", address.str(), ", which is ",
           is_in ? "no gateway" : "outside of the subnets", " of network '", one.list->name, "'"),
       cat(wanted != nullptr ? cat("ADD of every pod fails for want of the gateway ", wanted->str())
                             : "pods have a gateway that the bridge does not have",
           pods.empty() ? "" : cat("; it is the gateway of ", some_of(pods))),
       remedy_for(node, carrier, address, wanted),
       {one.list->name}});
}

bool replaces_gateways(const cni::NetworkList& list) {
  const auto* const conf = plugin_with(cni::Fact::kBridge, list);
  return conf != nullptr && is_true(*conf, "forceAddress");
}

}  // namespace

Findings check_bridge_addresses(const Node& node) {
  Findings out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    const std::string name = one.vlan == 0 ? one.bridge : cat(one.bridge, ".", one.vlan);
    const netlink::Link* const link = node.link(name);
    const std::vector<Subnet> all = subnets_of(node, {one.bridge, one.list->name});
    if (link == nullptr || !one.is_gateway || all.empty()) continue;
    if (replaces_gateways(*one.list)) continue;
    Carrier carrier{one, *link, {}};
    for (const netlink::LinkAddress& address : node.addresses) {
      if (address.link == link->index) carrier.present.push_back(address.cidr);
    }
    const std::vector<Cidr> missing = missing_gateways(node, carrier);
    for (const Cidr& address : carrier.present) {
      if (address.ip.is_link_local() && !address.ip.is_v4()) continue;
      if (!is_gateway(address, all)) check_address(node, carrier, address, missing, out);
    }
  }
  return out;
}

}  // namespace tool::doctor

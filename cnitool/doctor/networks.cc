#include "cnitool/doctor/networks.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/delegate.h"
#include "cnitool/doctor/node.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/json_at.h"
#include "cnitool/known_plugins.h"
#include "plugins/names/links.h"

namespace tool::doctor {

namespace {

using cni::Fact;
using netlink::Cidr;
using netlink::Family;
using nlohmann::json;

// The first plugin with the fact, or the first delegate.
std::optional<cni::PluginConf> effective_with(Fact fact, const cni::NetworkList& list) {
  for (const cni::PluginConf& one : list.plugins) {
    cni::PluginConf found = effective(one);
    if (facts_of(found.type).has(fact) && found.conf->is_object()) return found;
  }
  return std::nullopt;
}

}  // namespace

std::vector<BridgeNetwork> routed_networks(const Node& node) {
  std::vector<BridgeNetwork> out;
  for (const cni::NetworkList& list : node.networks.lists) {
    const json* const firewall = plugin_with(Fact::kPolicy, list);
    for (const Fact fact : {Fact::kBridge, Fact::kRouted}) {
      const auto plugin = effective_with(fact, list);
      if (!plugin) continue;
      const json& conf = *plugin->conf;
      out.push_back(
          {.list = &list,
           .plugin = plugin->type,
           .bridge = fact == Fact::kRouted ? "" : text_at(conf, "bridge", names::kDefaultBridge),
           .is_gateway = is_true(conf, "isGateway") || is_true(conf, "isDefaultGateway"),
           .masquerades = is_true(conf, "ipMasq"),
           .hairpin = is_true(conf, "hairpinMode"),
           .promiscuous = is_true(conf, "promiscMode"),
           .is_delegate = plugin_with(fact, list) == nullptr,
           .masq_except = strings_at(conf, "ipMasqExcept"),
           .masquerade_backend = text_at(conf, "ipMasqBackend"),
           .mtu = static_cast<unsigned>(number_at(conf, "mtu")),
           .vlan = static_cast<unsigned>(number_at(conf, "vlan")),
           .has_ports = plugin_with(Fact::kPorts, list) != nullptr});
      if (firewall != nullptr) out.back().firewall = text_at(*firewall, "backend");
    }
  }
  return out;
}

std::vector<BridgeNetwork> bridge_networks(const Node& node) {
  auto out = routed_networks(node);
  std::erase_if(out, [](const BridgeNetwork& one) { return one.bridge.empty(); });
  return out;
}

bool is_routed(const cni::NetworkList& list) {
  const cni::Facts facts = facts_of(effective(list.plugins.front()).type);
  return facts.has_one_of({Fact::kBridge, Fact::kRouted});
}

std::vector<Subnet> subnets(const Node& node) {
  std::vector<Subnet> out;
  for (const Pool& pool : node.pools) {
    const cni::NetworkList* const list = node.network(pool.network);
    if (list != nullptr && !is_routed(*list)) continue;
    for (const auto& set : pool.sets) {
      for (const auto& range : set.ranges) {
        const bool goes_on = !out.empty() && out.back().network == pool.network &&
                             out.back().range.subnet == range.subnet;
        if (goes_on) out.back().range.end = std::max(out.back().range.end, range.end);
        if (!goes_on) out.push_back({pool.network, pool.file, range});
      }
    }
  }
  return out;
}

bool overlap(const Cidr& a, const Cidr& b) { return a.contains(b.ip) || b.contains(a.ip); }

const netlink::Link* renamed_bridge(const Node& node, const BridgeNetwork& network) {
  if (network.bridge.empty() || node.link(network.bridge) != nullptr) return nullptr;
  for (const AttachmentState& one : node.attachments) {
    if (!one.is_alive() || one.key.network != network.list->name) continue;
    for (const netlink::Link& link : node.links) {
      if (link.master == 0 || !link.alias.starts_with(one.key.tag())) continue;
      const netlink::Link* const master = node.link(link.master);
      if (master != nullptr && master->kind == "bridge") return master;
    }
  }
  return nullptr;
}

std::set<int> own_links(const Node& node, const std::string& network) {
  std::set<int> out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    if (one.list->name != network) continue;
    if (const netlink::Link* const link = renamed_bridge(node, one)) out.insert(link->index);
    for (const std::string& name : {one.bridge, cat(one.bridge, ".", one.vlan)}) {
      if (const netlink::Link* const link = node.link(name)) out.insert(link->index);
    }
  }
  return out;
}

bool uses(const Node& node, Family family, const std::string& network) {
  for (const Subnet& one : subnets(node)) {
    if (one.network == network && one.range.start.family() == family) return true;
  }
  const cni::NetworkList* const list = node.network(network);
  if (list != nullptr && !is_routed(*list)) return false;
  return std::ranges::any_of(node.attachments, [&](const auto& one) {
    const auto& ips = one.result.ips;
    return one.is_alive() && one.key.network == network &&
           std::ranges::any_of(ips, [&](const auto& ip) { return ip.cidr.ip.family() == family; });
  });
}

bool uses(const Node& node, Family family) {
  std::set<std::string> networks;
  for (const Subnet& one : subnets(node)) networks.insert(one.network);
  for (const AttachmentState& one : node.attachments) networks.insert(one.key.network);
  return std::ranges::any_of(
      networks, [&](const std::string& network) { return uses(node, family, network); });
}

Names networks_with(const Node& node, Family family) {
  Names out;
  for (const BridgeNetwork& one : routed_networks(node)) {
    if (uses(node, family, one.list->name)) out.push_back(one.list->name);
  }
  return out;
}

std::vector<std::string> uplinks(const Node& node, Family family) {
  std::vector<std::string> out;
  for (const netlink::LinkRoute& route : node.routes) {
    if (!route.dst.is_default() || route.dst.ip.family() != family || route.table != kMainTable)
      continue;
    const netlink::Link* const link = node.link(route.link);
    if (link != nullptr && std::ranges::find(out, link->name) == out.end()) {
      out.push_back(link->name);
    }
  }
  return out;
}

}  // namespace tool::doctor

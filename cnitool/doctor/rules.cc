#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/networks.h"
#include "cnitool/doctor/pods.h"
#include "netlink/route/policy_rule.h"
#include "netlink/route/socket.h"

// Rules of the routing policy, as of a VPN, that come before the table with the routes to pods.
namespace tool::doctor {

namespace {

using netlink::PolicyRule;

constexpr std::uint32_t kLocalTable = 255;      // RT_TABLE_LOCAL
constexpr std::uint32_t kMainPriority = 32766;  // fib_default_rules_init() in net/ipv4/fib_rules.c

std::vector<PolicyRule> rules_before_main(netlink::Family family) {
  auto out = netlink::RouteSocket().policy_rules(family);
  std::erase_if(out, [](const PolicyRule& one) {
    return one.priority >= kMainPriority || one.table == kLocalTable || one.table == kMainTable;
  });
  return out;
}

// The route that ADD made: by the bridge, or by the pod's own host veth.
const netlink::LinkRoute* own_route(const Node& node, const AttachmentState& one,
                                    const std::set<int>& own, const cni::Ip& ip) {
  for (const netlink::LinkRoute& route : node.routes) {
    if (route.table != kMainTable || route.dst.is_default() || !route.dst.contains(ip)) continue;
    const netlink::Link* const link = node.link(route.link);
    const bool is_own =
        own.contains(route.link) || (link != nullptr && link->alias.starts_with(one.key.tag()));
    if (is_own) return &route;
  }
  return nullptr;
}

// The subnet from which the network has the address.
netlink::Cidr subnet_of(const Node& node, const std::string& network, const cni::Cidr& address) {
  for (const Subnet& one : subnets(node)) {
    if (one.network == network && one.range.subnet.contains(address.ip)) {
      return one.range.subnet.network();
    }
  }
  return {address.ip, address.ip.bits()};
}

// The tables from which the kernel may have that answer, which does not name its table; without one
// those that refuse.
std::set<std::uint32_t> tables_with(const Node& node,
                                    const std::optional<netlink::MatchedRoute>& found,
                                    const cni::Ip& ip) {
  std::set<std::uint32_t> out;
  for (const netlink::LinkRoute& one : found ? node.routes : node.refusals) {
    const bool is_it =
        found ? one.dst == found->route.dst && one.link == found->route.link : one.dst.contains(ip);
    if (is_it) out.insert(one.table);
  }
  return out;
}

// The first of the rules that may decide: a rule that precedes it precedes them all.
std::optional<PolicyRule> rule_for(const Node& node, const std::vector<PolicyRule>& rules,
                                   const netlink::LinkRoute& own, const cni::Ip& ip) {
  const auto found = netlink::RouteSocket().match(ip);
  if (found && (found->local || found->route.link == own.link)) return std::nullopt;
  const auto tables = tables_with(node, found, ip);
  std::optional<PolicyRule> out;
  for (const PolicyRule& one : rules) {
    if (tables.contains(one.table) && (!out || one.priority < out->priority)) out = one;
  }
  return out;
}

// The rule stays, as another program's connections need it, and one of the pods' subnet goes before
// it. Nothing goes before a rule of priority 0.
std::string remedy_for(const RuledAway& one) {
  const std::string ip = one.subnet.ip.is_v4() ? "ip rule " : "ip -6 rule ";
  const auto& [priority, table] = std::pair(one.rule.priority, one.rule.table);
  if (priority == 0) return cat(ip, "del priority 0 lookup ", table);
  return cat(ip, "add to ", one.subnet.str(), " lookup main priority ", priority - 1);
}

}  // namespace

std::vector<RuledAway> ruled_away(const Node& node) {
  std::vector<RuledAway> out;
  for (const netlink::Family family : netlink::kFamilies) {
    const auto rules = rules_before_main(family);
    if (rules.empty()) continue;
    for (const AttachmentState& one : node.attachments) {
      if (!one.is_alive() || !node.which.has(one.key)) continue;
      const auto own = own_links(node, one.key.network);
      for (const cni::Address& address : one.result.ips) {
        const cni::Ip& ip = address.cidr.ip;
        const auto* const route = ip.family() == family ? own_route(node, one, own, ip) : nullptr;
        const auto rule = route == nullptr ? std::nullopt : rule_for(node, rules, *route, ip);
        if (rule) out.push_back({one.key, subnet_of(node, one.key.network, address.cidr), *rule});
      }
    }
  }
  return out;
}

Findings check_rules(const Node& node) {
  std::map<std::tuple<std::string, netlink::Cidr, std::uint32_t>, const RuledAway*> found;
  for (const RuledAway& one : node.ruled_away) {
    found.emplace(std::tuple(one.key.network, one.subnet, one.rule.priority), &one);
  }
  Findings out;
  for (const auto& [key, one] : found) {
    const std::string& network = one->key.network;
    out.push_back({Level::kError,
                   cat("subnet ", one->subnet.str(), " of network '", network,
                       "': the node's rule of priority ", one->rule.priority, " (lookup ",
                       one->rule.table, ") comes before the routes to pods"),
                   "packets to pods are sent by the routes of that table",
                   remedy_for(*one),
                   {network}});
  }
  return out;
}

}  // namespace tool::doctor

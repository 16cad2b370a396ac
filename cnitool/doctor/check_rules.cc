#include <map>
#include <tuple>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"

// Rules of the node, ip-rule(8), that lead packets to pods past the routes to them.
namespace tool::doctor {

namespace {

// The rule stays, as another program's connections need it, and one of the pods' subnet goes before
// it. Nothing goes before a rule of priority 0.
std::string remedy_for(const RuledAway& one) {
  const std::string ip = one.subnet.ip.is_v4() ? "ip rule " : "ip -6 rule ";
  const auto& [priority, table] = std::pair(one.rule.priority, one.rule.table);
  if (priority == 0) return cat(ip, "del priority 0 lookup ", table);
  return cat(ip, "add to ", one.subnet.str(), " lookup main priority ", priority - 1);
}

}  // namespace

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

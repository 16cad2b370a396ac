#include "plugins/common/route_tables.h"

#include <algorithm>

#include "libcni/common/dir.h"
#include "libcni/common/lock.h"

namespace plugins {

namespace {

constexpr const char* kLockDir = "/run/cni/route-tables";
constexpr std::uint32_t kReserved[] = {0, 253, 254, 255};  // unspecified, default, main, local

}  // namespace

netlink::Fd lock_route_tables() { return cni::take_lock(cni::Dir::create(kLockDir)); }

std::set<std::uint32_t> tables_in_use(netlink::RouteSocket& pod,
                                      const std::vector<netlink::PolicyRule>& rules) {
  std::set<std::uint32_t> out(std::begin(kReserved), std::end(kReserved));
  for (const netlink::PolicyRule& rule : rules) out.insert(rule.table);
  for (const netlink::Family family : netlink::kFamilies) {
    for (const std::uint32_t table : pod.route_tables(family)) out.insert(table);
  }
  for (const netlink::Link& link : pod.links_of_kind("vrf")) {
    if (const auto* const vrf = std::get_if<netlink::Vrf>(&link.data)) out.insert(vrf->table);
  }
  return out;
}

std::vector<netlink::PolicyRule> all_rules(netlink::RouteSocket& pod) {
  std::vector<netlink::PolicyRule> out;
  for (const netlink::Family family : netlink::kFamilies) {
    for (const netlink::PolicyRule& rule : pod.policy_rules(family)) out.push_back(rule);
  }
  return out;
}

std::vector<netlink::RouteCopy> all_routes(netlink::RouteSocket& pod) {
  std::vector<netlink::RouteCopy> out;
  for (const netlink::Family family : netlink::kFamilies) {
    for (netlink::RouteCopy& route : pod.route_copies(family)) out.push_back(std::move(route));
  }
  return out;
}

bool leads_by(const netlink::LinkRoute& route, const netlink::Link& link) {
  const auto& links = route.multipath;
  if (links.empty()) return route.link == link.index;
  return std::all_of(links.begin(), links.end(), [&](int one) { return one == link.index; });
}

void gateways_last(std::vector<netlink::RouteCopy>& routes) {
  std::stable_partition(routes.begin(), routes.end(), [](const netlink::RouteCopy& one) {
    return !one.route.gateway && one.route.multipath.empty();
  });
}

}  // namespace plugins

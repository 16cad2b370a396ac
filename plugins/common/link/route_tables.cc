#include "plugins/common/link/route_tables.h"

#include <linux/rtnetlink.h>

#include <algorithm>
#include <iterator>

#include "libcni/common/dir.h"
#include "libcni/common/lock.h"
#include "libcni/common/undo.h"
#include "plugins/names/state.h"

namespace plugins {

namespace {

constexpr const char* kLockDir = names::kRouteTablesLockDir;
constexpr std::uint32_t kReserved[] = {0, 253, 254, 255};  // unspecified, default, main, local

template <class Read>
auto of_both(Read read) {
  auto out = read(netlink::Family::kIpv4);
  auto more = read(netlink::Family::kIpv6);
  out.insert(out.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
  return out;
}

}  // namespace

netlink::Fd lock_route_tables() {
  return cni::noting_failure(
      "going on without a lock of the routing tables",
      [] { return cni::take_lock(cni::Dir::create(kLockDir)); }, cni::is_refusal);
}

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
  return of_both([&](netlink::Family family) { return pod.policy_rules(family); });
}

std::vector<netlink::RouteCopy> all_routes(netlink::RouteSocket& pod) {
  return of_both([&](netlink::Family family) { return pod.route_copies(family); });
}

std::vector<netlink::LinkRoute> unicast_routes(netlink::RouteSocket& pod) {
  return of_both([&](netlink::Family family) { return pod.routes(family); });
}

bool is_learned(const netlink::LinkRoute& route) {
  return route.protocol == RTPROT_REDIRECT || route.protocol == RTPROT_RA;
}

std::vector<netlink::RouteCopy> routes_by(netlink::RouteSocket& pod, const netlink::Link& link) {
  std::vector<netlink::RouteCopy> out;
  for (const netlink::RouteCopy& route : all_routes(pod)) {
    if (auto part = netlink::part_by(route, link)) out.push_back(*std::move(part));
  }
  gateways_last(out);
  return out;
}

bool has_route(const std::vector<netlink::RouteCopy>& routes, const netlink::LinkRoute& wanted,
               std::uint32_t table) {
  for (const netlink::RouteCopy& route : routes) {
    if (route.route.table != table || route.route.dst != wanted.dst) continue;
    for (const netlink::LinkRoute& one : netlink::each_hop(route.route)) {
      if (one.link == wanted.link && one.gateway == wanted.gateway &&
          one.priority == wanted.priority && one.source == wanted.source) {
        return true;
      }
    }
  }
  return false;
}

void gateways_last(std::vector<netlink::RouteCopy>& routes) {
  std::stable_partition(routes.begin(), routes.end(), [](const netlink::RouteCopy& one) {
    return !one.route.gateway && one.route.multipath.empty();
  });
}

}  // namespace plugins

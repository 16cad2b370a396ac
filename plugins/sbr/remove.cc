#include <algorithm>
#include <cerrno>

#include "libcni/common/undo.h"
#include "netlink/route/stored_route.h"
#include "plugins/common/link/route_tables.h"
#include "plugins/sbr/plan.h"
#include "plugins/sbr/routing.h"

namespace sbr {

namespace {

using cni::cat;
using netlink::Link;
using netlink::PolicyRule;
using netlink::RouteCopy;
using netlink::RouteRequest;
using netlink::RouteSocket;
using plugins::all_routes;
using plugins::all_rules;

// The pod may have removed addresses or routes that a gateway was reached by. Without memory
// nothing is known of that: the state stays, and the next DEL or GC restores them.
void restore(RouteSocket& pod, std::vector<RouteRequest> requests) {
  try {
    pod.send(std::move(requests));
  } catch (const netlink::Error& e) {
    if (e.error() == ENOMEM || e.error() == ENOBUFS) throw;
    cni::note(cat("restore routes: ", e.what()));
  }
}

// Restores routes that ADD replaced and no table has any more. The interface may not exist.
void restore_replaced(RouteSocket& pod, const State& state) {
  for (const std::string& text : state.routes) {
    const auto route = netlink::route_from_stored(text);
    if (!route || is_in(state.moved, words_for(route->route))) continue;
    restore(pod, {netlink::add(*route, plugins::kMainTable)});
  }
}

}  // namespace

void remove_hints(RouteSocket& pod, const std::vector<std::string>& hints) {
  if (hints.empty()) return;
  for (const RouteCopy& one : all_routes(pod)) {
    const bool is_ours = one.route.table == plugins::kMainTable && one.route.protocol == kProtocol;
    if (is_ours && is_in(hints, words_for(one.route))) pod.send(netlink::remove(one));
  }
}

void remove_routing(plugins::Namespaces& sides, const State& state) {
  RouteSocket& pod = sides.pod;
  for (const PolicyRule& rule : all_rules(pod)) {
    const bool is_ours = rule.is_plain && rule.protocol == kProtocol && rule.from &&
                         state.has_rule(rule.from->ip, rule.table);
    if (is_ours) pod.send(netlink::remove(rule));
  }
  remove_hints(pod, state.hints);
  const auto all = all_routes(pod);
  auto routes = all;
  std::erase_if(routes, [&](const RouteCopy& one) {
    const bool is_ours =
        one.route.protocol == kProtocol || is_in(state.moved, words_for(one.route));
    return !is_ours || !is_in(state.tables, one.route.table);
  });
  plugins::gateways_last(routes);
  std::vector<RouteRequest> restored, removed;
  for (const RouteCopy& one : routes) {
    const bool has_left = !plugins::has_route(all, one.route, plugins::kMainTable);
    const bool is_moved = is_in(state.moved, words_for(one.route));
    if (is_moved && has_left) restored.push_back(netlink::add(one, plugins::kMainTable));
    for (RouteRequest& request : netlink::remove(one)) removed.push_back(std::move(request));
  }
  restore(pod, std::move(restored));
  pod.send(std::move(removed));
  restore_replaced(pod, state);
}

void remove_stateless_rules(RouteSocket& pod, const Link& link, std::optional<std::uint32_t> table,
                            bool is_own_too) {
  const auto addresses = pod.addresses(link);
  for (const PolicyRule& rule : all_rules(pod)) {
    const bool is_stateless = rule.protocol == 0 || (is_own_too && rule.protocol == kProtocol);
    if (!rule.is_plain || !is_stateless || !rule.from || (table && rule.table != *table)) continue;
    const bool is_of_link =
        std::ranges::any_of(addresses, [&](const auto& one) { return is_of(rule, one.cidr.ip); });
    if (is_of_link) pod.send(netlink::remove(rule));
  }
}

}  // namespace sbr

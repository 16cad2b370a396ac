#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "netlink/route/socket.h"

/// Routing tables of a pod that a plugin chooses itself: sbr, vrf.
namespace plugins {

inline constexpr std::uint32_t kMainTable = 254;

/// Held while tables are chosen and routes moved, by whichever plugin does: else two calls for one
/// pod could choose the same. \throws cni::Error(kTryAgainLater).
netlink::Fd lock_route_tables();

/// Tables that are not free: the kernel's own ones, those that a rule leads to, that have a route
/// of whatever type, or that belong to a VRF.
std::set<std::uint32_t> tables_in_use(netlink::RouteSocket& pod,
                                      const std::vector<netlink::PolicyRule>& rules);

/// The rules of both families.
std::vector<netlink::PolicyRule> all_rules(netlink::RouteSocket& pod);
/// The unicast routes of both families, and one for each next hop.
std::vector<netlink::RouteCopy> all_routes(netlink::RouteSocket& pod);
std::vector<netlink::LinkRoute> unicast_routes(netlink::RouteSocket& pod);
/// Whether a router or a redirect taught the kernel the route, which comes again by itself.
bool is_learned(const netlink::LinkRoute& route);
/// The routes by the link, and of multipath routes its next hops; those via a gateway come last.
std::vector<netlink::RouteCopy> routes_by(netlink::RouteSocket& pod, const netlink::Link& link);

/// Whether the table has the route, alone or as a next hop of another.
bool has_route(const std::vector<netlink::RouteCopy>& routes, const netlink::LinkRoute& wanted,
               std::uint32_t table);

/// Routes via a gateway come last: their gateways are reached by the others.
void gateways_last(std::vector<netlink::RouteCopy>& routes);

}  // namespace plugins

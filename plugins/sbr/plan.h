#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/config/result.h"
#include "netlink/route/socket.h"
#include "plugins/sbr/state.h"

/// Plans which routes go to which table.
namespace sbr {

/// Says in the kernel that a rule or a route is ours (FRA_PROTOCOL, rtm_protocol): a number that
/// neither linux/rtnetlink.h nor /etc/iproute2/rt_protos gives away.
inline constexpr std::uint8_t kProtocol = 67;

/// The place of one address's routes.
struct Place {
  const cni::Address& address;
  std::uint32_t table = 0;
  bool has_rule = false;
  bool is_fresh = false;  ///< a table that nothing was in before
};

/// The address alone: /32 or /128.
netlink::Cidr whole(const netlink::Ip& ip);

/// Whether nothing but the address selects.
bool is_of(const netlink::PolicyRule& rule, const netlink::Ip& ip);
/// A rule of the address: to the table, or without one to whichever table, by our protocol.
std::optional<netlink::PolicyRule> rule_of(const std::vector<netlink::PolicyRule>& rules,
                                           const netlink::Ip& ip,
                                           std::optional<std::uint32_t> table);

/// Whether it is a route of the address, or of no address in particular.
bool belongs(const netlink::LinkRoute& route, const cni::Address& address,
             const std::vector<cni::Address>& all);
bool belongs_to_any(const netlink::LinkRoute& route, const std::vector<cni::Address>& all);
/// Whether it is a default route by which the address does not leave: it has a gateway, and the
/// route has another one or leads by another link.
bool is_stray(const netlink::LinkRoute& route, const cni::Address& address,
              const netlink::Link& link);
/// The metric of the address' default route in its table; the greatest where there is none.
std::uint32_t metric_of_default(const std::vector<netlink::LinkRoute>& routes, const Place& place,
                                const netlink::Link& link);

/// Whether it is of IPv6 and link-local.
bool is_link_local(const netlink::Cidr& subnet);
/// IPv6 subnets in which only addresses without a rule are, of those that the interface has. Their
/// routes have no source that tells them from others.
std::vector<netlink::Cidr> subnets_without_rule(const std::vector<netlink::LinkAddress>& present,
                                                const std::vector<cni::Address>& addresses);
/// Whether addresses without a rule need the route in the main table: to link-local neighbours, of
/// which each interface has an address, or to one of these subnets.
bool is_needed_in_main(const netlink::LinkRoute& route, const std::vector<netlink::Cidr>& subnets);

/// The routes of the interface that get another place than the main table.
std::vector<netlink::RouteCopy> movable(const std::vector<netlink::RouteCopy>& routes,
                                        const std::vector<cni::Address>& addresses);
/// Routes that an earlier ADD moved, as far as they are not among these.
std::vector<netlink::RouteCopy> moved_before(const State& earlier, const netlink::Link& link,
                                             const std::vector<netlink::RouteCopy>& moved);
/// The route's text, without its table.
std::string words_for(const netlink::LinkRoute& route);

/// Whether the route leads to the subnet of an address, or to a part of it.
bool is_to_subnet(const netlink::LinkRoute& route, const std::vector<cni::Address>& addresses);
/// addSourceHints: what the main table lacks of routes to the subnets with an address as source.
/// routes: those that move; main: the interface's routes in it.
std::vector<netlink::LinkRoute> hints_for(const std::vector<netlink::RouteCopy>& routes,
                                          const std::vector<netlink::RouteCopy>& main,
                                          const std::vector<cni::Address>& addresses);

/// The requests that fill the table of a place: the routes that belong there and no stray, those by
/// which the gateway is reached before a default route via it.
std::vector<netlink::RouteRequest> filling(const netlink::Link& link, const Place& place,
                                           const std::vector<netlink::RouteCopy>& routes,
                                           const std::vector<cni::Address>& all);
/// Whether the table of a place has the route, of those that move.
bool has_place(const netlink::LinkRoute& route, const std::vector<Place>& places,
               const netlink::Link& link, const std::vector<cni::Address>& all);

}  // namespace sbr

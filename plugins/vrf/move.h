#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libcni/common/undo.h"
#include "plugins/common/link/interface.h"
#include "plugins/vrf/state.h"

/// An interface gets another master or none: the kernel sets it down and up again (cycle_netdev()
/// in drivers/net/vrf.c), by which it loses all routes, and IPv6 addresses that are not permanent
/// or that keep_addr_on_down does not cover.
namespace vrf {

/// Routes and settings that an interface would lose.
struct Baggage {
  std::vector<netlink::LinkAddress> addresses = {};  ///< of IPv6
  std::vector<netlink::RouteCopy> routes = {};       ///< of all tables, those via a gateway last
  std::optional<Ipv6State> ipv6 = {};                ///< nothing where the link has no IPv6
};
/// Without what the kernel learns again from routers. Of multipath routes with other links, next
/// hops in the table that the interface leaves; those of other tables stay as they are.
Baggage baggage_of(netlink::RouteSocket& pod, const netlink::Link& link, std::uint32_t table);
/// Routes and settings as a state has them, from before the interface entered.
Baggage baggage_of(const State& state);

/// The link whose members have their routes in a table: a VRF, or none and the main table.
struct Domain {
  int master = 0;
  std::uint32_t table = 254;
};

/// Moves the interface from no VRF into one with what it has: its addresses, and its routes from
/// the main table to the VRF's; those of other tables stay there. Registers the way back. Waits
/// until the interface carries packets and its addresses can be used, if so they were.
/// \throws netlink::Error; cni::Error.
void enter(const plugins::PodInterface& interface, const Domain& vrf, const Baggage& baggage,
           cni::Undo& undo);

/// The reverse, for DEL, with what it has and had before. Addresses and routes that could not be
/// carried over are noted. \throws netlink::Error.
void release(const plugins::PodInterface& interface, const Domain& vrf, const Baggage& before);

/// Completes the move of a call that was killed, of an interface that is in its target: adds its
/// routes, keeps those that exist, notes those that cannot be added, and restores settings.
/// \throws netlink::Error.
void complete(const plugins::PodInterface& interface, const Domain& domain, const Baggage& before);

}  // namespace vrf

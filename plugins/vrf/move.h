#pragma once

#include <cstdint>
#include <vector>

#include "libcni/common/undo.h"
#include "plugins/common/interface.h"

/// An interface gets another master or none: the kernel sets it down and up again (cycle_netdev()
/// in drivers/net/vrf.c), by which it loses all routes, and IPv6 addresses that are not permanent
/// or that keep_addr_on_down does not cover.
namespace vrf {

/// What an interface would lose.
struct Baggage {
  std::vector<netlink::LinkAddress> addresses;  ///< of IPv6
  std::vector<netlink::RouteCopy> routes;       ///< of all tables, those via a gateway last
};
/// Without what the kernel learns again from routers.
Baggage baggage_of(netlink::RouteSocket& pod, const netlink::Link& link);

/// The link whose members have their routes in a table: a VRF, or none and the main table.
struct Domain {
  int master = 0;
  std::uint32_t table = 254;
};

/// Moves the interface with its addresses, and its routes from one table to the other; those of
/// other tables stay there. Registers the way back. Waits until the interface carries packets and
/// its addresses can be used, if so they were. \throws netlink::Error; cni::Error.
void move(const plugins::PodInterface& interface, const Domain& from, const Domain& to,
          cni::Undo& undo);

/// The same for DEL: neither waits nor fails once the interface has left; what could not be carried
/// over is noted. \throws netlink::Error.
void release(const plugins::PodInterface& interface, const Domain& from);

}  // namespace vrf

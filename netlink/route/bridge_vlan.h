#pragma once

#include <cstdint>
#include <vector>

#include "netlink/route/link.h"
#include "netlink/route/request.h"

namespace netlink {

/// VLAN IDs first to last (1..4094, inclusive) of a bridge port. pvid only for a single ID.
struct PortVlan {
  std::uint16_t first = 0, last = 0;
  bool pvid = false;      ///< untagged frames that come in belong to it
  bool untagged = false;  ///< its frames go out without a tag
  bool operator==(const PortVlan&) const = default;
};

/// Reads an RTM_NEWVLAN (linux/if_bridge.h, BRIDGE_VLANDB_*).
std::vector<PortVlan> decode_port_vlans(const Reply& reply);

/// One message for all of vlans: a range costs no more than one ID.
RouteRequest add_vlans(const Link& port, const std::vector<PortVlan>& vlans);
RouteRequest remove_vlans(const Link& port, const std::vector<PortVlan>& vlans);

}  // namespace netlink

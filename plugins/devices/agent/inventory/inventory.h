#pragma once

#include <string>
#include <vector>

#include "netlink/route/address.h"
#include "netlink/route/link.h"
#include "plugins/devices/agent/inventory/device.h"
#include "plugins/devices/agent/inventory/sysfs.h"

/// All links and network hardware of the node, each with its identity and what keeps it from being
/// offered.
namespace devices {

/// What the kernel says of the node's links at one time.
struct NodeLinks {
  std::vector<netlink::Link> links = {};
  std::vector<netlink::LinkAddress> addresses = {};
  std::vector<int> default_routes =
      {};  ///< indices of the links of default routes, of both families
};

/// In the network namespace of this thread. \throws netlink::Error.
NodeLinks node_links();

/// Sorted by id; no two have the same.
std::vector<Device> inventory(const NodeLinks& node, const std::vector<Hardware>& hardware);

}  // namespace devices

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/pools/pools.h"

/// `patchbay-agent list`: each device of the node and slot of the config, its resource or why it
/// has none, and the pod that it belongs to.
namespace devices {

/// Looks at the node, and at the ledger if there is one; changes nothing.
/// \throws netlink::Error, cni::Error.
nlohmann::ordered_json list_of(const Pools& pools, const Places& places);

/// The list for persons: a line each.
std::string table_of(const nlohmann::ordered_json& list);

/// The state of the agent that serves the socket.
struct AgentStatus {
  std::string text;                 ///< "vendor.example/nic: 8 devices, 7 healthy", a line each
  std::vector<std::string> unread;  ///< resources whose list the kubelet does not read
};
/// \throws netlink::Error where none answers within 5 s.
AgentStatus status_of(const std::string& socket);

}  // namespace devices

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cnitool/doctor/finding.h"
#include "libcni/runtime/conflist.h"

namespace tool::doctor {

/// A patchbay-agent that runs, that networks ask for the devices of their pods, or whose ledger has
/// some.
struct DeviceAgent {
  std::string socket = {}, ledger = {};      ///< paths
  Names networks = {};                       ///< with the plugin devices
  bool is_required = false;                  ///< by one of these, for each of its pods
  bool has_run = false;                      ///< the folder of the ledger exists
  std::size_t devices = 0;                   ///< in the ledger
  std::size_t open = 0;                      ///< of these, those that no container has
  std::vector<std::int64_t> unclaimed = {};  ///< Unix times of the promises to unknown pods
  int failure = 0;                           ///< errno of a connection to its socket; 0: it listens
  bool has_unit = false, has_config = false;
  /// Whether the folder was removed after the agent created it: the socket exists, which an agent
  /// that is stopped removes.
  bool is_ledger_removed() const;
};

/// Connects to each and asks nothing. \throws netlink::Error where that is for root alone.
std::vector<DeviceAgent> device_agents(const std::vector<cni::NetworkList>& networks);

}  // namespace tool::doctor

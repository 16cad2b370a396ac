#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "libcni/runtime/conflist.h"

namespace tool {

/// The network of a resource of patchbay-agent: the plugin devices gives it to the plugins that
/// attach a device (names::devices_network()).
struct DeviceNetwork {
  std::string resource;         ///< "vendor.example/nic"
  cni::NetworkList list;        ///< its file is where it was read from
  std::size_t attachments = 0;  ///< devices that pods have
};

struct DeviceNetworks {
  std::vector<DeviceNetwork> networks;
  std::vector<cni::BrokenFile> broken;  ///< the config of patchbay-agent, if it is unreadable
};

/// Those of the config of patchbay-agent, in its order, and those that the ledgers have alone,
/// because the config was changed or is in an image; their file is the ledger's folder. A ledger
/// that cannot be read is noted.
DeviceNetworks device_networks(const std::vector<cni::NetworkList>& configs);

}  // namespace tool

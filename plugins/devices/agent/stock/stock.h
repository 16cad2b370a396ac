#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/inventory/device.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/ledger/entry.h"

/// What each pool offers: the node's devices, its slots, and devices that pods have.
namespace devices {

using Entries = std::map<std::string, Entry>;  ///< by the device's ID

/// A device of a pool.
struct Item {
  Offer offer;
  std::optional<Device> device = {};  ///< empty: a slot, or its link is in a pod
  std::optional<unsigned> slot = {};  ///< number
  bool is_forced = false;
  bool is_present = false;  ///< a pod could get it, or has it; false: hardware that vanished
};

/// A device that no pool has, and why. One in a pod has its ID alone.
struct KeptBack {
  Device device;
  std::string reason;
};

struct Stock {
  std::vector<std::map<std::string, Item>> pools;  ///< by ID, for each pool of the config
  std::vector<KeptBack> kept_back;
};

/// A device belongs to the pool whose resource it was promised as, as long as a pod has it, then to
/// the first that selects it. If the config has no such pool any more, because it was renamed or
/// removed, no other pod gets the device until then.
Stock stock_of(const Pools& pools, const std::vector<Device>& devices, const Entries& entries);

/// Whether one of the pool's selectors matches.
bool selects(const Pool& pool, const Device& device);

}  // namespace devices

#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugins/devices/agent/inventory/inventory.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/agent/promises.h"

/// Offers of each pool: the node's devices, its slots, and devices that pods have.
namespace devices {

/// A device as the kubelet sees it.
struct Offer {
  std::string id;
  bool healthy = false;
  std::optional<int> numa = {};  ///< empty: no preference
  bool operator==(const Offer&) const = default;
};

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

struct Preference {
  std::vector<std::string> available, required;
  std::size_t size = 0;
};
/// At most size of the available devices, the required ones first, of as few NUMA nodes as may be.
/// \param numa the NUMA node of each device that is offered.
std::vector<std::string> preferred_of(const Preference& asked,
                                      const std::map<std::string, std::optional<int>>& numa);

}  // namespace devices

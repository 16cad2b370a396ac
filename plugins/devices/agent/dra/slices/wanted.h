#pragma once

#include <map>
#include <string>
#include <vector>

#include "plugins/devices/agent/dra/slices/attributes.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/agent/stock/stock.h"

/// The ResourceSlices that a node should have. Pure: no I/O.
namespace devices::dra {

// Limits of resource.k8s.io/v1.
inline constexpr std::size_t kMaxSliceDevices = 128;
inline constexpr std::size_t kMaxSpecialDevices = 64;  ///< if one has taints or counters
inline constexpr std::size_t kMaxSliceCounterSets = 8;

/// Fields that the API server keeps. With a feature gate off it drops them without a word; devices
/// that are not safe to offer without them are then left out.
struct Features {
  bool taints = true;    ///< DRADeviceTaints
  bool counters = true;  ///< DRAPartitionableDevices
  bool shares = true;    ///< DRAConsumableCapacity
  bool operator==(const Features&) const = default;
};

struct Offering {
  const Pools& pools;
  const Stock& stock;
  const std::string& driver;
  Features features = {};
};

/// The attributes of each device that had a link, by its name, as it was published last.
using LastKnown = std::map<std::string, Json>;

/// The content of each slice, in the order in which the scheduler should look: `devices`, or
/// `sharedCounters`. The scheduler takes the first device that fits, so that those without
/// conditions come first, then virtual functions, whole physical functions, and tainted devices.
/// No slices: nothing is offered by DRA.
std::vector<Json> wanted_slices(const Offering& of, const LastKnown& last_known);

/// Of the contents of slices.
LastKnown attributes_in(const std::vector<Json>& contents);

/// What a request consumes that names no bandwidth: the equal share, so that each slot can be
/// given. \param bandwidth bits per second of all slots.
std::int64_t default_bandwidth(std::int64_t bandwidth, std::size_t slots);

}  // namespace devices::dra

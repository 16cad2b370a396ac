#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plugins/state/ledger_entry.h"

/// What ResourceClaim.status.devices says of devices of this node: AllocatedDeviceStatus of
/// resource.k8s.io/v1. The list is a map by driver, pool, device and shareID: each driver has its
/// own elements.
namespace devices::dra {

using Json = nlohmann::json;

// The API's limits: it refuses the whole status beyond.
inline constexpr std::size_t kMaxInterfaceName = 256, kMaxHardwareAddress = 128, kMaxIps = 16;

/// Whose elements of the list are written: those of the driver on this node.
struct StatusOwner {
  std::string driver, pool;
};

/// The element of a device of a claim: condition Ready, which is true while it is attached to the
/// claim's pod, and then the interface with its addresses. Without the time of the condition.
/// \param entry has a claim.
Json device_status(const Entry& entry, const StatusOwner& of);

/// The claim's list with the elements of this publisher replaced by `ours`, as far as the claim has
/// these devices allocated; those of others stay as they are. A condition keeps its time as long as
/// its status does. \param now Unix time.
Json with_devices(const Json& claim, const std::vector<Json>& ours, const StatusOwner& of,
                  std::int64_t now);

/// status.devices of a claim; an empty list where it has none.
Json devices_of(const Json& claim);

}  // namespace devices::dra

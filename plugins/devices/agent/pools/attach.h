#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plugins/devices/agent/pools/pools.h"

/// From the keys of a pool to the plugins that attach a device.
namespace devices {

/// The key of host-device that selects a device.
enum class SelectBy : std::uint8_t { kPci, kAuxiliary, kName };

/// The plugins for a device that exists: host-device, and tuning where it is needed.
nlohmann::ordered_json plugins_for(const Pool& pool, SelectBy by, const std::string& value);
/// Those for a slot: the plugin that makes the link, and tuning where it is needed.
nlohmann::ordered_json plugins_for_slot(const Pool& pool, unsigned number);

}  // namespace devices

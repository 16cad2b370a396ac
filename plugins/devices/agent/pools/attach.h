#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plugins/devices/agent/pools/pools.h"

/// From the plugins of a pool to those of a device: the first one is told which device it is.
namespace devices {

/// How a device that exists is named: by a PCI address, an auxiliary device's name or a link's.
enum class SelectBy : std::uint8_t { kPci, kAuxiliary, kName };

/// Whether the first plugin can be told the name of a link. host-device can; others have the key
/// "deviceID" for a PCI address or an auxiliary device's name (device-info specification of NPWG,
/// 1.1.0; the SR-IOV plugin).
bool takes_link_names(const Pool& pool);

/// The keys that the first plugin gets besides: for a device that exists, and for a slot.
/// \throws cni::Error(kInvalidConfig) for the name of a link that it cannot be told.
nlohmann::ordered_json keys_added(const Pool& pool, SelectBy by, const std::string& value);
nlohmann::ordered_json keys_added(const Pool& pool, unsigned slot);

/// The plugins of the pool, the first one with the keys added: the list for the ledger.
nlohmann::ordered_json plugins_with(const Pool& pool, const nlohmann::ordered_json& added);

}  // namespace devices

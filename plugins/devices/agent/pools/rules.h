#pragma once

#include <string>

#include "libcni/config/conf.h"
#include "plugins/devices/agent/pools/pools.h"

/// What values of the config must be, and what keys demand of each other.
namespace devices {

inline constexpr unsigned kMaxSlots = 1000;  ///< of a pool

inline constexpr const char* kLinkNameForm =
    "a name of a link: 1 to 15 bytes without slash, colon, percent sign and white space";
inline constexpr const char* kNodeForm = "a path below /dev/, without ..";
inline constexpr const char* kResourceForm =
    "the name of an extended resource, for example vendor.example/nic, not of kubernetes.io";

bool is_interface_name(const std::string& text);
/// A link's name of which ids can be made.
bool is_slot_parent(const std::string& text);
bool is_device_node(const std::string& text);
bool is_domain(const std::string& text);
/// The same as is_resource_name(), or a name without domain.
bool is_resource_or_short(const std::string& text);
/// Whether a delegate may have this type: the name of a file, and not that of the plugin devices.
bool is_plugin_type(const std::string& text);

/// Completes names of resources, and looks at what keys and pools demand of each other.
/// \throws cni::Error(kInvalidConfig) naming the key.
void check_pools(const cni::Reader& root, Pools& pools);

}  // namespace devices

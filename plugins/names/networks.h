#pragma once

#include <algorithm>
#include <string>
#include <string_view>

/// Networks that no config names: plugins that call others as delegates name them.
namespace names {

/// The network of the delegates of the plugin devices: one for each resource, so that GC of the
/// chain's network, which lists the chain's interfaces alone, takes nothing of theirs, and so that
/// two resources can have the same subnet. "vendor.example/nic" is "devices.vendor.example_nic".
inline constexpr std::string_view kDevicesNetworkPrefix = "devices.";
inline std::string devices_network(std::string_view resource) {
  std::string out(kDevicesNetworkPrefix);
  out += resource;
  std::ranges::replace(out, '/', '_');  // a domain has no underscore
  return out;
}
inline bool is_devices_network(std::string_view network) {
  return network.starts_with(kDevicesNetworkPrefix) && network.find('_') != network.npos;
}

/// The plugin that attaches devices of a pool without the key `plugins`.
inline constexpr const char* kDevicesDelegate = "host-device";

}  // namespace names

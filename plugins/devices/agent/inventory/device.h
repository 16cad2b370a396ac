#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/types/mac.h"

namespace devices {

enum class Bus : std::uint8_t { kNone, kPci, kAuxiliary };

/// A link of the node, as far as a device's health and description need it.
struct DeviceLink {
  std::string name;
  int index = 0;
  std::string kind = {};  ///< empty: hardware
  std::optional<netlink::Mac> permanent_mac = {};
  unsigned mtu = 0;
  bool up = false;          ///< set up by an operator
  bool carrier = false;     ///< operational
  std::string parent = {};  ///< the link that it stands on
  bool operator==(const DeviceLink&) const = default;
};

/// Hardware or a link of the node: one for each identity.
struct Device {
  /// PCI address, name of the auxiliary device, or "netdev:" and the permanent MAC address with
  /// hyphens, or the name of the link.
  std::string id;
  Bus bus = Bus::kNone;
  std::optional<DeviceLink> link = {};  ///< empty: it has none here, as in a pod or with vfio-pci
  std::string driver = {};
  std::string vendor = {}, device = {};  ///< four hexadecimal digits; hardware only
  std::optional<int> numa = {};          ///< empty: unknown
  std::string pci = {};                  ///< address of the PCI device that it is or belongs to
  std::string physical_function = {};    ///< PCI address; empty: it is no virtual function
  std::string physical_link = {};        ///< name of that function's link
  std::vector<std::string> virtual_functions = {};  ///< PCI addresses
  std::string kept_back = {};  ///< why it is never offered unless forced; empty: it may be
  bool forcible = true;        ///< whether it can be offered all the same
  bool operator==(const Device&) const = default;
};

/// Whether the ID is a PCI address or the name of an auxiliary device, which other plugins take,
/// too.
bool is_hardware_id(std::string_view id);

/// Up is unhealthy without carrier; down is healthy, because the plugin sets the interface up. A
/// device without link is healthy with a driver of user space alone.
bool is_healthy(const Device& device);

}  // namespace devices

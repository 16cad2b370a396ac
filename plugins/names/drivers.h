#pragma once

#include <algorithm>
#include <string_view>

/// Drivers of PCI devices.
namespace names {

/// Whether the driver gives the device to user space, as for DPDK: the device has no link then.
constexpr bool is_user_space_driver(std::string_view driver) {
  constexpr std::string_view kDrivers[] = {"vfio-pci", "uio_pci_generic", "igb_uio"};
  return std::ranges::find(kDrivers, driver) != std::end(kDrivers);
}

}  // namespace names

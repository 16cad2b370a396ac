#pragma once

#include <string>

/// Device-info files of the Network Plumbing Working Group's device information specification
/// 1.1.0: how Multus, other plugins and workloads get the PCI address of a device.
namespace devices {

/// "vendor.example-nic-0000:03:00.1-device.json".
std::string device_info_name(const std::string& resource, const std::string& id);

struct DeviceInfo {
  std::string pci, physical_function;  ///< PCI addresses; the second may be empty
};
/// Makes or replaces the file, written aside and renamed. \throws netlink::Error.
void write_device_info(const std::string& dir, const std::string& name, const DeviceInfo& info);
/// \throws netlink::Error.
void remove_device_info(const std::string& dir, const std::string& name);

}  // namespace devices

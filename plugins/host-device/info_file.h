#pragma once

#include <string>

#include "libcni/common/undo.h"

/// Device-info files of the Network Plumbing Working Group's device information
/// specification 1.1.0: how workloads get the PCI addresses of their devices. A device plugin or
/// meta plugin may have written the file; the meta plugin removes it after DEL.
namespace host_device {

/// Makes the file of type pci say the device's address; a file of that address, or of another type,
/// stays as it is. Its undo step is registered before.
/// \throws cni::Error(kInvalidConfig) for a file of another PCI device, or that is none.
void write_device_info(const std::string& path, const std::string& pci, cni::Undo& undo);

}  // namespace host_device

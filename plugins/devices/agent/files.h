#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "plugins/devices/agent/dra/slices/state.h"

/// Files that others than root read: device information of the Network Plumbing Working Group's
/// specification 1.1.0, by which Multus, other plugins and workloads get the PCI address of a
/// device, and metrics.
namespace devices {

/// Makes or replaces a file that others than root read, written aside and renamed.
/// \throws netlink::Error.
void write_readable(const cni::Dir& dir, const std::string& name, const std::string& text,
                    mode_t mode);

/// "vendor.example-nic-0000:03:00.1-device.json".
std::string device_info_name(const std::string& resource, const std::string& id);

struct DeviceInfo {
  std::string pci, physical_function;  ///< PCI addresses; the second may be empty
};
/// Makes or replaces the file, written aside and renamed. \throws netlink::Error.
void write_device_info(const std::string& dir, const std::string& name, const DeviceInfo& info);
/// \throws netlink::Error.
void remove_device_info(const std::string& dir, const std::string& name);

/// The state of a resource, for the metrics and the socket.
struct Count {
  std::string resource;
  std::size_t devices = 0, healthy = 0, allocated = 0;
  std::uint64_t allocations = 0, failures = 0;  ///< since the start: devices, requests
  bool is_read = false;                         ///< by the kubelet, which allocates none else
};

/// The counts in the text format of Prometheus, for the textfile collector of its node exporter.
/// \param slices nullopt: there is no DRA.
std::string metrics_text(const std::vector<Count>& counts,
                         const std::optional<dra::SliceState>& slices = {});
/// Writes the file aside and renames it; readable by everyone. \throws netlink::Error.
void write_metrics(const std::string& path, const std::string& text);

}  // namespace devices

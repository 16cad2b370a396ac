#include "plugins/devices/agent/files/device_info.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "plugins/devices/agent/files/readable.h"

namespace devices {

std::string device_info_name(const std::string& resource, const std::string& id) {
  std::string out = cni::cat(resource, "-", id, "-device.json");
  std::replace(out.begin(), out.end(), '/', '-');
  return out;
}

void write_device_info(const std::string& dir_path, const std::string& name,
                       const DeviceInfo& info) {
  nlohmann::ordered_json pci = {{"pci-address", info.pci}};
  if (!info.physical_function.empty()) pci["pf-pci-address"] = info.physical_function;
  const nlohmann::ordered_json doc = {
      {"type", "pci"}, {"version", "1.1.0"}, {"pci", std::move(pci)}};
  const auto dir = cni::Dir::create(dir_path);
  write_readable(dir, name, doc.dump(), 0444);  // workloads read it
}

void remove_device_info(const std::string& dir_path, const std::string& name) {
  if (const auto dir = cni::Dir::open(dir_path)) dir->remove(name);
}

}  // namespace devices

#include "plugins/devices/agent/inventory/sysfs.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "netlink/types/fd.h"

namespace devices {

namespace {

using cni::cat;

constexpr const char* kPci = "pci";
constexpr const char* kAuxiliary = "auxiliary";

// The path without symbolic links; empty where it leads nowhere.
std::string resolved(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? real.get() : std::string();
}

std::string last_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The first line of a file; empty where it cannot be read: a device may vanish at any time.
std::string line_of(const std::string& path) try {
  std::string text = netlink::read_regular_file(path).value_or("");
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
} catch (const netlink::Error&) {
  return {};
}

std::string without_prefix(const std::string& hex) {
  return hex.starts_with("0x") ? hex.substr(2) : hex;
}

// Nothing where the firmware does not say (-1).
std::optional<int> numa_of(const std::string& text) {
  int node = -1;
  std::from_chars(text.data(), text.data() + text.size(), node);
  if (node < 0) return std::nullopt;
  return node;
}

std::vector<std::string> links_of(const std::string& device) {
  auto out = cni::names_in(cat(device, "/net"));
  if (!out.empty()) return out;
  for (const std::string& name : cni::names_in(device)) {
    if (name.starts_with("virtio")) out = cni::names_in(cat(device, "/", name, "/net"));
    if (!out.empty()) break;
  }
  return out;
}

std::vector<std::string> virtual_functions_of(const std::string& device) {
  std::vector<std::string> out;
  for (const std::string& name : cni::names_in(device)) {
    if (!name.starts_with("virtfn")) continue;
    const std::string function = last_of(resolved(cat(device, "/", name)));
    if (!function.empty()) out.push_back(function);
  }
  std::ranges::sort(out);
  return out;
}

bool is_pci_address(std::string_view name) {  // "0000:03:00.1"
  const auto dot = name.rfind('.');
  return dot != std::string_view::npos && dot + 2 == name.size() &&
         std::ranges::count(name, ':') == 2 &&
         name.find_first_not_of("0123456789abcdef:.") == std::string_view::npos;
}

// The address of the PCI device above; empty where there is none.
std::string pci_above(std::string path) {
  while (path.size() > 1) {
    if (is_pci_address(last_of(path))) return last_of(path);
    path.resize(path.rfind('/'));
  }
  return {};
}

// The root complex in the path of a PCI device: "/sys/devices/pci0000:00/0000:00:1c.0/...".
std::string root_above(const std::string& path) {
  constexpr std::string_view kFolder = "/devices/";
  const auto at = path.find(cat(kFolder, "pci"));
  if (at == path.npos) return {};
  const auto begin = at + kFolder.size();
  return path.substr(begin, path.find('/', begin) - begin);
}

}  // namespace

std::string Sysfs::path(const std::string& bus, const std::string& name) const {
  return cat(root_, "/bus/", bus, "/devices/", name);
}

Hardware Sysfs::read(const std::string& bus, const std::string& name) const {
  const std::string at = path(bus, name);
  Hardware out{.name = name,
               .is_auxiliary = bus == kAuxiliary,
               .driver = last_of(resolved(cat(at, "/driver"))),
               .vendor = {},
               .device = {},
               .numa = {},
               .pci = name,
               .physical_function = last_of(resolved(cat(at, "/physfn"))),
               .virtual_functions = virtual_functions_of(at),
               .links = links_of(at)};
  if (out.is_auxiliary) out.pci = pci_above(resolved(at));
  const std::string pci = out.pci.empty() ? at : path(kPci, out.pci);
  out.vendor = without_prefix(line_of(cat(pci, "/vendor")));
  out.device = without_prefix(line_of(cat(pci, "/device")));
  out.numa = numa_of(line_of(cat(pci, "/numa_node")));
  if (!out.pci.empty()) out.pcie_root = root_above(resolved(pci));
  out.rdma = !cni::names_in(cat(at, "/infiniband")).empty();
  const std::string functions = line_of(cat(at, "/sriov_totalvfs"));
  out.sriov = !functions.empty() && functions != "0";
  return out;
}

std::vector<Hardware> Sysfs::hardware() const {
  constexpr std::string_view kNetworkClass = "0x02";
  std::vector<Hardware> out;
  for (const std::string& name : cni::names_in(cat(root_, "/bus/pci/devices"))) {
    if (!line_of(cat(path(kPci, name), "/class")).starts_with(kNetworkClass)) continue;
    out.push_back(read(kPci, name));
  }
  // In a pod, the link of an auxiliary device is not below it any more: sub-functions stay listed
  // by their name.
  for (const std::string& name : cni::names_in(cat(root_, "/bus/auxiliary/devices"))) {
    Hardware one = read(kAuxiliary, name);
    const bool is_sub_function = name.find(".sf.") != std::string::npos;
    if (is_sub_function || !one.links.empty()) out.push_back(std::move(one));
  }
  return out;
}

std::vector<std::string> Sysfs::user_space_nodes(const std::string& pci) const {
  const std::string at = path(kPci, pci);
  std::vector<std::string> out;
  if (const std::string group = resolved(cat(at, "/iommu_group")); !group.empty()) {
    const std::string number = last_of(group);
    // A group without IOMMU has another name on the node (drivers/vfio/group.c).
    const bool is_safe = line_of(cat(group, "/name")) != "vfio-noiommu";
    return {cat("/dev/vfio/", is_safe ? "" : "noiommu-", number), "/dev/vfio/vfio"};
  }
  for (const std::string& name : cni::names_in(cat(at, "/uio"))) {
    out.push_back(cat("/dev/", name));
  }
  return out;
}

std::vector<std::string> Sysfs::rdma_nodes(const std::string& pci) const {
  std::vector<std::string> out;
  for (const char* type : {"infiniband_verbs", "infiniband_mad", "infiniband_cm"}) {
    for (const std::string& name : cni::names_in(cat(path(kPci, pci), "/", type))) {
      out.push_back(cat("/dev/infiniband/", name));
    }
  }
  if (!out.empty()) out.push_back("/dev/infiniband/rdma_cm");
  return out;
}

}  // namespace devices

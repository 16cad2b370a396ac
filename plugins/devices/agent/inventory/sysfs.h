#pragma once

#include <optional>
#include <string>
#include <vector>

/// Hardware in sysfs (Documentation/ABI/testing/sysfs-bus-pci, sysfs-class-net). The root is
/// "/sys"; tests have another.
namespace devices {

/// A device of a bus.
struct Hardware {
  std::string name;  ///< in bus/pci/devices or bus/auxiliary/devices
  bool is_auxiliary = false;
  std::string driver, vendor, device;
  std::optional<int> numa;
  std::string pci;                ///< its own address, or that of its parent
  std::string physical_function;  ///< PCI address
  std::vector<std::string> virtual_functions;
  std::vector<std::string> links;  ///< sorted; of the network namespace that sysfs belongs to
  std::string pcie_root = {};      ///< "pci0000:00"; empty: unknown
  bool rdma = false;               ///< it has RDMA devices
  bool sriov = false;              ///< it can have virtual functions
};

class Sysfs {
 public:
  explicit Sysfs(std::string root) : root_(std::move(root)) {}

  /// Network devices of the PCI bus (class 0x02....), and auxiliary devices that have links.
  std::vector<Hardware> hardware() const;
  /// Paths below /dev of a device with a driver of user space (vfio, uio), the same in a container.
  std::vector<std::string> user_space_nodes(const std::string& pci) const;
  /// Those below /dev/infiniband.
  std::vector<std::string> rdma_nodes(const std::string& pci) const;

 private:
  Hardware read(const std::string& bus, const std::string& name) const;
  std::string path(const std::string& bus, const std::string& name) const;

  std::string root_;
};

}  // namespace devices

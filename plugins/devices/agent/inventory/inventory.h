#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/route/address.h"
#include "netlink/route/link.h"
#include "netlink/types/mac.h"
#include "plugins/devices/agent/inventory/sysfs.h"

/// All links and network hardware of the node, each with its identity and what keeps it from being
/// offered.
namespace devices {

enum class Bus : std::uint8_t { kNone, kPci, kAuxiliary };

/// A link of the node, as far as a device's health and description need it.
struct DeviceLink {
  std::string name;
  std::string kind = {};  ///< empty: hardware
  std::optional<netlink::Mac> permanent_mac = {};
  unsigned mtu = 0;
  bool up = false;          ///< set up by an operator
  bool carrier = false;     ///< operational
  std::string parent = {};  ///< the link that it stands on
  std::optional<netlink::Mac> mac = {};
  std::string ipv4 = {}, ipv6 = {};  ///< its first global address of the family, or ""
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
  std::string pcie_root = {};  ///< "pci0000:00"; empty: unknown
  bool rdma = false;           ///< it has RDMA devices
  bool sriov = false;          ///< it can have virtual functions
  bool operator==(const Device&) const = default;
};

/// Whether the ID is a PCI address or the name of an auxiliary device, which other plugins take,
/// too.
bool is_hardware_id(std::string_view id);

/// Up is unhealthy without carrier; down is healthy, because the plugin sets the interface up. A
/// device without link is healthy with a driver of user space alone.
bool is_healthy(const Device& device);

/// The node's links at one time.
struct NodeLinks {
  std::vector<netlink::Link> links = {};
  std::vector<netlink::LinkAddress> addresses = {};
  std::vector<int> default_routes =
      {};  ///< indices of the links of default routes, of both families
};

/// In the network namespace of this thread. \throws netlink::Error.
NodeLinks node_links();

/// Sorted by id; no two have the same.
std::vector<Device> inventory(const NodeLinks& node, const std::vector<Hardware>& hardware);

/// Why links of the node are not offered, by their index: the node, or a link of it, uses them. A
/// link that is not in it may be offered.
std::map<int, std::string> exclusions(const NodeLinks& node);

}  // namespace devices

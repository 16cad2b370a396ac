#include "plugins/devices/agent/inventory/inventory.h"

#include <linux/rtnetlink.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "libcni/common/error.h"
#include "netlink/route/socket.h"
#include "plugins/devices/agent/inventory/exclusions.h"
#include "plugins/names/drivers.h"

namespace devices {

namespace {

using cni::cat;
using netlink::Link;

constexpr std::string_view kOfLink = "netdev:";
constexpr std::size_t kMaxId = 63;  // the kubelet's limit

// As ids become names of files, of CDI devices and of environment variables' values.
bool is_id(const std::string& text) {
  return !text.empty() && text.size() <= kMaxId &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == ':' || c == '-';
         });
}

/// The links that are left when those of PCI and auxiliary devices are taken.
class Assembly {
 public:
  Assembly(const NodeLinks& node, const std::vector<Hardware>& hardware)
      : node_(node), reasons_(exclusions(node)) {
    for (const Link& link : node.links) {
      by_name_[link.name] = &link;
      if (link.permanent_mac) ++macs_[link.permanent_mac->str()];
    }
    for (const Hardware& one : hardware) {
      if (!one.links.empty()) links_of_pci_.emplace(one.pci, one.links.front());
    }
    // The links of sub-functions are below their PCI device, too: they go first.
    for (const Hardware& one : hardware) {
      if (one.is_auxiliary) add(one);
    }
    for (const Hardware& one : hardware) {
      if (!one.is_auxiliary) add(one);
    }
    for (const Link& link : node.links) {
      if (!taken_.contains(link.index)) add(link);
    }
  }

  std::vector<Device> take() {
    std::vector<Device> out;
    for (auto& [id, device] : devices_) out.push_back(std::move(device));
    return out;
  }

 private:
  DeviceLink described(const Link& link) const {
    DeviceLink out{.name = link.name,
                   .index = link.index,
                   .kind = link.kind,
                   .permanent_mac = link.permanent_mac,
                   .mtu = link.mtu,
                   .up = link.up,
                   .carrier = link.oper_state == netlink::OperState::kUp ||
                              link.oper_state == netlink::OperState::kUnknown};
    for (const Link& other : node_.links) {
      if (other.index == link.parent_index && !link.parent_nsid) out.parent = other.name;
    }
    return out;
  }

  void set_link(Device& device, const Link& link) {
    taken_.insert(link.index);
    device.link = described(link);
    if (const auto reason = reasons_.find(link.index); reason != reasons_.end()) {
      device.kept_back = reason->second;
    }
    device.forcible = !link.loopback;
  }

  void add(const Hardware& one) {
    Device device{.id = one.name,
                  .bus = one.is_auxiliary ? Bus::kAuxiliary : Bus::kPci,
                  .driver = one.driver,
                  .vendor = one.vendor,
                  .device = one.device,
                  .numa = one.numa,
                  .pci = one.pci,
                  .physical_function = one.physical_function,
                  .virtual_functions = one.virtual_functions};
    for (const std::string& name : one.links) {
      const auto link = by_name_.find(name);
      if (link == by_name_.end() || taken_.contains(link->second->index)) continue;
      if (!device.link) {
        set_link(device, *link->second);
      } else {
        add_further(*link->second, one.name);
      }
    }
    if (const auto parent = links_of_pci_.find(one.physical_function);
        parent != links_of_pci_.end()) {
      device.physical_link = parent->second;
    }
    // Root in its pod would set MAC address, VLAN and trust of virtual functions that others have.
    const bool is_physical = device.link && !device.virtual_functions.empty();
    if (is_physical && device.kept_back.empty()) device.kept_back = "has virtual functions";
    keep(std::move(device));
  }

  // host-device takes the first link of a device alone.
  void add_further(const Link& link, const std::string& hardware) {
    Device device{.id = cat(kOfLink, link.name)};
    set_link(device, link);
    device.kept_back = cat("further link of device ", hardware);
    device.forcible = false;
    keep(std::move(device));
  }

  void add(const Link& link) {
    std::string identity = link.name;
    if (link.kind.empty() && link.permanent_mac && macs_[link.permanent_mac->str()] == 1) {
      identity = link.permanent_mac->str();
      std::replace(identity.begin(), identity.end(), ':', '-');
    }
    Device device{.id = cat(kOfLink, identity)};
    set_link(device, link);
    keep(std::move(device));
  }

  void keep(Device device) {
    if (!is_id(device.id)) {
      device.kept_back = "its name has characters that are not allowed in ids, or is too long";
      device.forcible = false;
    }
    std::string id = device.id;
    devices_.emplace(std::move(id), std::move(device));
  }

  const NodeLinks& node_;
  std::map<int, std::string> reasons_;
  std::map<std::string, const Link*> by_name_;
  std::map<std::string, int> macs_;  // how many links have each permanent MAC address
  std::map<std::string, std::string> links_of_pci_;
  std::set<int> taken_;
  std::map<std::string, Device> devices_;
};

}  // namespace

bool is_hardware_id(std::string_view id) { return !id.starts_with(kOfLink); }

bool is_healthy(const Device& device) {
  if (!device.link) return names::is_user_space_driver(device.driver);
  return !device.link->up || device.link->carrier;
}

NodeLinks node_links() {
  netlink::RouteSocket socket;
  NodeLinks out{.links = socket.links(), .addresses = socket.addresses(), .default_routes = {}};
  for (const auto family : netlink::kFamilies) {
    for (const netlink::LinkRoute& route : socket.routes(family)) {
      if (route.dst.is_default() && route.table == RT_TABLE_MAIN && route.link != 0) {
        out.default_routes.push_back(route.link);
      }
    }
  }
  return out;
}

std::vector<Device> inventory(const NodeLinks& node, const std::vector<Hardware>& hardware) {
  return Assembly(node, hardware).take();
}

}  // namespace devices

#include "plugins/devices/agent/inventory/inventory.h"

#include <linux/rtnetlink.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "libcni/common/error.h"
#include "netlink/route/socket.h"
#include "plugins/devices/protocol/link_id.h"
#include "plugins/names/drivers.h"
#include "plugins/state/ledger_entry.h"

namespace devices {

namespace {

using cni::cat;
using netlink::Link;

constexpr std::string_view kSwitches[] = {"bridge", "bond", "team", "vrf", "openvswitch"};

/// The links of a node, and which of them is stacked on which.
class Stack {
 public:
  explicit Stack(const NodeLinks& node) : node_(node) {}

  std::string name_of(int index) const {
    const auto link = std::ranges::find(node_.links, index, &Link::index);
    return link == node_.links.end() ? cat("#", index) : link->name;
  }

  /// A port is below its bridge or bond, a parent below its VLANs and macvlans.
  static bool is_on(const Link& upper, const Link& lower) {
    if (upper.index == lower.index) return false;
    return lower.master == upper.index || (upper.parent_index == lower.index && !upper.parent_nsid);
  }
  /// All links below, or above.
  std::set<int> reach(int index, bool is_above) const {
    std::set<int> out;
    std::vector<int> open = {index};
    while (!open.empty()) {
      const auto at = std::ranges::find(node_.links, open.back(), &Link::index);
      open.pop_back();
      if (at == node_.links.end()) continue;
      for (const Link& to : node_.links) {
        const bool leads = is_above ? is_on(to, *at) : is_on(*at, to);
        if (leads && out.insert(to.index).second) open.push_back(to.index);
      }
    }
    out.erase(index);
    return out;
  }

 private:
  const NodeLinks& node_;
};

bool is_global(const netlink::LinkAddress& address) {
  return address.scope == RT_SCOPE_UNIVERSE || address.scope == RT_SCOPE_SITE;
}

std::string own_reason(const NodeLinks& node, const Stack& stack, const Link& link) {
  if (std::ranges::find(kSwitches, link.kind) != std::end(kSwitches)) {
    return cat("kind ", link.kind);
  }
  if (link.master != 0) return cat("port of '", stack.name_of(link.master), "'");
  for (const Link& other : node.links) {
    if (Stack::is_on(other, link)) return cat("'", other.name, "' stands on it");
  }
  for (const netlink::LinkAddress& address : node.addresses) {
    if (address.link == link.index && is_global(address)) {
      return cat("has the address ", address.cidr.str());
    }
  }
  return {};
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
                   .kind = link.kind,
                   .permanent_mac = link.permanent_mac,
                   .mtu = link.mtu,
                   .up = link.up,
                   .carrier = link.oper_state == netlink::OperState::kUp ||
                              link.oper_state == netlink::OperState::kUnknown};
    for (const Link& other : node_.links) {
      if (other.index == link.parent_index && !link.parent_nsid) out.parent = other.name;
    }
    out.mac = link.mac;
    for (const netlink::LinkAddress& one : node_.addresses) {
      if (one.link != link.index || !is_global(one)) continue;
      std::string& first = one.cidr.ip.is_v4() ? out.ipv4 : out.ipv6;
      if (first.empty()) first = one.cidr.str();
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
                  .virtual_functions = one.virtual_functions,
                  .pcie_root = one.pcie_root,
                  .rdma = one.rdma,
                  .sriov = one.sriov};
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
    Device device{.id = link_id(link.name)};
    set_link(device, link);
    device.kept_back = cat("further link of device ", hardware);
    device.forcible = false;
    keep(std::move(device));
  }

  void add(const Link& link) {
    const bool has_mac =
        link.kind.empty() && link.permanent_mac && macs_[link.permanent_mac->str()] == 1;
    Device device{.id = has_mac ? link_id(*link.permanent_mac) : link_id(link.name)};
    set_link(device, link);
    keep(std::move(device));
  }

  void keep(Device device) {
    if (!is_device_id(device.id)) {
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

std::map<int, std::string> exclusions(const NodeLinks& node) {
  const Stack stack(node);
  std::map<int, std::string> out;
  for (const int index : node.default_routes) {
    out.emplace(index, "default route of the node");
    const std::string of = cat("'", stack.name_of(index), "', which has the default route");
    for (const int one : stack.reach(index, false)) out.emplace(one, cat("below ", of));
    for (const int one : stack.reach(index, true)) out.emplace(one, cat("above ", of));
  }
  for (const Link& link : node.links) {
    if (link.loopback) {
      out[link.index] = "loopback";
    } else if (!out.contains(link.index)) {
      if (std::string reason = own_reason(node, stack, link); !reason.empty()) {
        out.emplace(link.index, std::move(reason));
      }
    }
  }
  return out;
}

bool is_hardware_id(std::string_view id) { return !id.starts_with(kLinkId); }

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

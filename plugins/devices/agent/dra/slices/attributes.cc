#include "plugins/devices/agent/dra/slices/attributes.h"

#include <algorithm>
#include <utility>

#include "plugins/names/drivers.h"

namespace devices::dra {

namespace {

// Those of a link: the node does not see them while a pod has it.
constexpr const char* kOfLink[] = {"ifName", "mac",  "mtu",    "state",  "type",
                                   "ipv4",   "ipv6", "parent", "virtual"};

// Text that every reader of JSON and CEL takes as it is: names of links may be any bytes.
bool is_plain(std::string_view text) {
  return !text.empty() && text.size() <= kMaxAttributeText &&
         std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

void describe_link(Attributes& out, const DeviceLink& link) {
  out.text("ifName", link.name);
  if (const auto mac = link.permanent_mac ? link.permanent_mac : link.mac) {
    out.text("mac", mac->str());
  }
  out.number("mtu", link.mtu);
  out.text("state", link.up && link.carrier ? "up" : "down");
  out.text("type", link.kind.empty() ? "device" : link.kind);
  out.text("ipv4", link.ipv4);
  out.text("ipv6", link.ipv6);
  out.text("parent", link.parent);
  out.flag("virtual", !link.kind.empty());
}

void describe_bus(Attributes& out, const Device& device) {
  if (!device.pci.empty()) {
    out.text("pciAddress", device.pci);
    out.text("resource.kubernetes.io/pciBusID", device.pci);
    out.text("pciVendor", device.vendor);
    out.text("pciDevice", device.device);
  }
  out.text("resource.kubernetes.io/pcieRoot", device.pcie_root);
  if (device.bus == Bus::kAuxiliary) out.text("auxiliary", device.id);
  if (device.numa) out.number("numaNode", *device.numa);
}

}  // namespace

void Attributes::text(const char* name, std::string_view value) {
  if (is_plain(value)) all_[name] = {{"string", std::string(value)}};
}

Json attributes_of(const Pool& pool, const Device& device) {
  Attributes out;
  out.text("resource", pool.resource);
  if (device.link) describe_link(out, *device.link);
  describe_bus(out, device);
  out.text("driver", device.driver);
  out.flag("rdma", device.rdma);
  out.flag("sriov", device.sriov);
  out.flag("isSriovVf", !device.physical_function.empty());
  if (!device.physical_link.empty()) out.text("parent", device.physical_link);
  return out.take();
}

Json slot_attributes(const Pool& pool, const Device* parent) {
  Attributes out;
  out.text("resource", pool.resource);
  out.text("type", pool.type());
  out.text("parent", pool.slots.front().parent);
  out.flag("virtual", true);
  if (parent != nullptr) {
    if (parent->numa) out.number("numaNode", *parent->numa);
    out.text("resource.kubernetes.io/pcieRoot", parent->pcie_root);
    if (parent->link) out.number("mtu", parent->link->mtu);
  }
  return out.take();
}

Json with_last_known(Json attributes, const Json& last_known) {
  for (const char* name : kOfLink) {
    const auto known = last_known.find(name);
    if (known != last_known.end() && !attributes.contains(name)) attributes[name] = *known;
  }
  return attributes;
}

}  // namespace devices::dra

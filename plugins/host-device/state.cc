#include "plugins/host-device/state.h"

#include <algorithm>

#include "libcni/config/names.h"
#include "plugins/host-device/settings.h"
#include "plugins/state/fields.h"

namespace plugins {

// An address of a device is permanent: it has no lifetimes.
template <>
inline constexpr auto kFields<netlink::LinkAddress> =
    std::tuple{Field{"address", &netlink::LinkAddress::cidr},
               Field{"peer", &netlink::LinkAddress::peer},
               Field{"broadcast", &netlink::LinkAddress::broadcast},
               Field{"label", &netlink::LinkAddress::label},
               Field{"scope", &netlink::LinkAddress::scope},
               Field{"flags", &netlink::LinkAddress::flags}};
// The XDP programs are in host_device::Device::programs.
template <>
inline constexpr auto kFields<netlink::LinkSettings> =
    std::tuple{Field{"flags", &netlink::LinkSettings::flags},
               Field{"group", &netlink::LinkSettings::group},
               Field{"txQueueLength", &netlink::LinkSettings::tx_queue_length},
               Field{"gsoMaxSize", &netlink::LinkSettings::gso_max_size},
               Field{"gsoMaxSegments", &netlink::LinkSettings::gso_max_segments},
               Field{"groMaxSize", &netlink::LinkSettings::gro_max_size},
               Field{"gsoIPv4MaxSize", &netlink::LinkSettings::gso_ipv4_max_size},
               Field{"groIPv4MaxSize", &netlink::LinkSettings::gro_ipv4_max_size},
               Field{"mode", &netlink::LinkSettings::mode},
               Field{"protoDown", &netlink::LinkSettings::proto_down},
               Field{"altnames", &netlink::LinkSettings::altnames}};
template <>
inline constexpr auto kFields<host_device::Stacked> = std::tuple{
    Field{"netns", &host_device::Stacked::netns}, Field{"index", &host_device::Stacked::index}};
template <>
inline constexpr auto kFields<host_device::Device> =
    std::tuple{Field{"name", &host_device::Device::name},
               Field{"index", &host_device::Device::index},
               Field{"kind", &host_device::Device::kind},
               Field{"mac", &host_device::Device::mac},
               Field{"permanentMAC", &host_device::Device::permanent_mac},
               Field{"hardware", &host_device::Device::hardware},
               Field{"pci", &host_device::Device::pci},
               Field{"mtu", &host_device::Device::mtu},
               Field{"up", &host_device::Device::up},
               Field{"promiscuous", &host_device::Device::promiscuous},
               Field{"alias", &host_device::Device::alias},
               Field{"otherIndex", &host_device::Device::other_index},
               Field{"otherOnHost", &host_device::Device::other_on_host},
               Field{"addresses", &host_device::Device::addresses},
               Field{"settings", &host_device::Device::settings},
               Field{"programs", &host_device::Device::programs},
               Field{"stacked", &host_device::Device::stacked}};
template <>
inline constexpr auto kFields<host_device::State> = std::tuple{
    Field{"", &host_device::State::owner}, Field{"podIndex", &host_device::State::pod_index},
    Field{"device", &host_device::State::device}};

}  // namespace plugins

namespace host_device {

using cni::cat;
using netlink::Link;
using netlink::LinkAddress;

Device device_of(netlink::RouteSocket& host, const Link& link) {
  const bool is_veth = link.peer_index != 0;
  Device out{.name = link.name,
             .index = link.index,
             .kind = link.kind,
             .mac = link.mac,
             .permanent_mac = link.permanent_mac,
             .hardware = link.device,
             .pci = pci_address_of(link.name),
             .mtu = link.mtu,
             .up = link.up,
             .promiscuous = link.promiscuous,
             .alias = link.alias,
             .other_index = is_veth ? link.peer_index : link.parent_index};
  out.settings = netlink::settings_of(host, link);
  out.programs = programs_of(link, *out.settings);
  out.stacked = stacked_on(link);
  out.other_on_host =
      out.other_index != 0 && !(is_veth ? link.peer_nsid : link.parent_nsid).has_value();
  for (LinkAddress& address : host.addresses(link)) {
    if (!address.permanent || address.cidr.ip.is_link_local()) continue;
    address.link = 0;
    address.tentative = address.dad_failed = false;
    out.addresses.push_back(std::move(address));
  }
  return out;
}

bool is_selected(const Conf& conf, const Selection& selection, const Device& device) {
  if (!conf.device.empty()) {
    if (device.name == conf.device || !device.settings) return device.name == conf.device;
    const auto& names = device.settings->altnames;
    return std::ranges::find(names, conf.device) != names.end();
  }
  if (conf.mac) return device.mac == *conf.mac || device.permanent_mac == conf.mac;
  const std::string hardware = device.hardware.substr(device.hardware.rfind('/') + 1);
  if (!conf.kernel_path.empty()) {
    return conf.kernel_path.ends_with(cat("/", device.pci.empty() ? hardware : device.pci));
  }
  if (!selection.pci.empty()) return device.pci == selection.pci;
  return hardware == selection.auxiliary;
}

std::string State::text() const { return plugins::json_text(*this); }

std::optional<State> State::from(const std::string& text) {
  auto out = plugins::from_json_text<State>(text);
  if (!out) return out;
  const Device& device = out->device;
  if (!cni::is_link_name(device.name) || device.index <= 0) {
    plugins::refuse_content(cat("device '", device.name, "' with index ", device.index));
  }
  for (LinkAddress& one : out->device.addresses) one.permanent = true;
  return out;
}

}  // namespace host_device

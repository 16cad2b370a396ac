#include "plugins/host-device/state.h"

#include <algorithm>

#include "libcni/config/names.h"
#include "plugins/common/state/fields.h"
#include "plugins/host-device/settings.h"

namespace plugins {

using host_device::Device;
using host_device::Stacked;
using host_device::State;
using netlink::LinkAddress;
using netlink::LinkSettings;

// That of a device is permanent.
template <>
inline constexpr auto kFields<LinkAddress> =
    std::tuple{Field{"address", &LinkAddress::cidr},        Field{"peer", &LinkAddress::peer},
               Field{"broadcast", &LinkAddress::broadcast}, Field{"label", &LinkAddress::label},
               Field{"scope", &LinkAddress::scope},         Field{"flags", &LinkAddress::flags}};
// The XDP programs are in Device::programs.
template <>
inline constexpr auto kFields<LinkSettings> =
    std::tuple{Field{"flags", &LinkSettings::flags},
               Field{"group", &LinkSettings::group},
               Field{"txQueueLength", &LinkSettings::tx_queue_length},
               Field{"gsoMaxSize", &LinkSettings::gso_max_size},
               Field{"gsoMaxSegments", &LinkSettings::gso_max_segments},
               Field{"groMaxSize", &LinkSettings::gro_max_size},
               Field{"gsoIPv4MaxSize", &LinkSettings::gso_ipv4_max_size},
               Field{"groIPv4MaxSize", &LinkSettings::gro_ipv4_max_size},
               Field{"mode", &LinkSettings::mode},
               Field{"protoDown", &LinkSettings::proto_down},
               Field{"altnames", &LinkSettings::altnames}};
template <>
inline constexpr auto kFields<Stacked> =
    std::tuple{Field{"netns", &Stacked::netns}, Field{"index", &Stacked::index}};
template <>
inline constexpr auto kFields<Device> = std::tuple{Field{"name", &Device::name},
                                                   Field{"index", &Device::index},
                                                   Field{"kind", &Device::kind},
                                                   Field{"mac", &Device::mac},
                                                   Field{"permanentMAC", &Device::permanent_mac},
                                                   Field{"hardware", &Device::hardware},
                                                   Field{"pci", &Device::pci},
                                                   Field{"mtu", &Device::mtu},
                                                   Field{"up", &Device::up},
                                                   Field{"promiscuous", &Device::promiscuous},
                                                   Field{"alias", &Device::alias},
                                                   Field{"otherIndex", &Device::other_index},
                                                   Field{"otherOnHost", &Device::other_on_host},
                                                   Field{"addresses", &Device::addresses},
                                                   Field{"settings", &Device::settings},
                                                   Field{"programs", &Device::programs},
                                                   Field{"stacked", &Device::stacked}};
template <>
inline constexpr auto kFields<State> =
    std::tuple{Field{"", &State::owner}, Field{"podIndex", &State::pod_index},
               Field{"device", &State::device}};

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
    return std::find(names.begin(), names.end(), conf.device) != names.end();
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
  if (!out || !cni::is_link_name(out->device.name) || out->device.index <= 0) return std::nullopt;
  for (LinkAddress& one : out->device.addresses) one.permanent = true;
  return out;
}

}  // namespace host_device

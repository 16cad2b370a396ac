#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/route/link_settings.h"
#include "netlink/route/socket.h"
#include "plugins/host-device/device.h"
#include "plugins/host-device/stacked.h"
#include "plugins/names/state.h"
#include "plugins/state/state_dir.h"

/// State files: one per attachment in names::kHostDeviceStateDir. ADD writes it before it moves the
/// device, DEL removes it when the device is back and as it was. A pod can write names, aliases and
/// MAC addresses, so that none of them says which device it was or what it was called.
namespace host_device {

/// A device as it was on the node.
struct Device {
  std::string name;
  int index = 0;
  std::string kind = {};  ///< empty: hardware
  netlink::Mac mac = {};
  std::optional<netlink::Mac> permanent_mac = {};
  std::string hardware = {};  ///< Link::device
  std::string pci = {};       ///< PCI address; empty: none
  unsigned mtu = 0;
  bool up = false, promiscuous = false;
  std::string alias = {};
  /// veth: index of the other end; macvlan and the like: of the parent. 0 is none.
  int other_index = 0;
  bool other_on_host = false;
  std::vector<netlink::LinkAddress> addresses = {};    ///< the permanent ones, link-local excepted
  std::optional<netlink::LinkSettings> settings = {};  ///< absent: unknown
  std::vector<std::uint32_t> programs = {};            ///< numbers of its XDP and tcx programs
  std::optional<std::vector<Stacked>> stacked = {};    ///< absent: unknown
  bool operator==(const Device&) const = default;

  /// Whether something tells it from what a pod can make.
  /// A macvlan in mode passthru can have the permanent MAC address of its parent.
  bool is_hardware() const { return kind.empty() || !hardware.empty(); }
};

struct State {
  static constexpr const char* kDir = names::kHostDeviceStateDir;

  plugins::StateOwner owner = {};
  int pod_index = 0;  ///< in the pod; 0: as on the node
  Device device = {};
  bool operator==(const State&) const = default;

  int index_in_pod() const { return pod_index != 0 ? pod_index : device.index; }
  std::string text() const;
  /// Empty: a torn file. \throws cni::Error: plugins::from_json_text().
  static std::optional<State> from(const std::string& text);
};
/// Whoever moves a device has its lock().
using StateDir = plugins::StateDir<State>;

/// The link as it is on the node now.
Device device_of(netlink::RouteSocket& host, const netlink::Link& link);

/// Whether the config selects the device, wherever it is.
bool is_selected(const Conf& conf, const Selection& selection, const Device& device);

}  // namespace host_device

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/plugin/request.h"
#include "netlink/route/link_settings.h"
#include "netlink/route/socket.h"
#include "plugins/host-device/device.h"
#include "plugins/host-device/stacked.h"
#include "plugins/names/state.h"

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
  std::string network, container_id, ifname;
  std::string netns;         ///< CNI_NETNS
  std::uint64_t cookie = 0;  ///< RouteSocket::cookie() of the pod's namespace; 0: unknown
  int pod_index = 0;         ///< in the pod; 0: as on the node
  Device device = {};
  bool operator==(const State&) const = default;

  int index_in_pod() const { return pod_index != 0 ? pod_index : device.index; }
  /// Of the file.
  std::string file_name() const;
  /// "container 'c1' (network 'net1', interface 'eth0')".
  std::string owner() const;
};

/// The link as it is on the node now.
Device device_of(netlink::RouteSocket& host, const netlink::Link& link);

/// Whether the config selects the device, wherever it is.
bool is_selected(const Conf& conf, const Selection& selection, const Device& device);

/// The content of a state file, and the reverse: nullopt for other content.
std::string text_of(const State& state);
std::optional<State> state_from(const std::string& text);

class StateDir {
 public:
  static constexpr const char* kPath = names::kHostDeviceStateDir;

  /// nullopt if the directory does not exist.
  static std::optional<StateDir> find(const std::string& path = kPath);
  static StateDir create(const std::string& path = kPath);

  /// Whoever moves a device has it. \throws cni::Error(kTryAgainLater).
  netlink::Fd lock() const;
  /// The name of the file of an attachment.
  static std::string file_of(const cni::Request& request);

  /// nullopt without a file, and for a file that cannot be read.
  std::optional<State> read(const std::string& file) const;
  std::vector<State> all() const;
  void put(const State& state) const;
  void remove(const std::string& file) const;

 private:
  explicit StateDir(cni::Dir dir) : dir_(std::move(dir)) {}
  cni::Dir dir_;
};

}  // namespace host_device

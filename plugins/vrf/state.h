#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/names/state.h"
#include "plugins/state/state_dir.h"

namespace vrf {

/// Settings in net.ipv6.conf.LINK that differ meanwhile.
struct Ipv6State {
  int keep_addr_on_down = 0, accept_dad = 0;
  bool operator==(const Ipv6State&) const = default;
};

/// The objects that ADD made in a pod's namespace.
struct State {
  static constexpr const char* kDir = names::kVrfStateDir;

  plugins::StateOwner owner = {};
  std::string vrf;
  std::uint32_t table = 0;
  int index = 0;  ///< of the interface, which the pod may rename
  /// The interface before it was moved, for a move that was interrupted: its routes
  /// (netlink::stored()) and settings of IPv6.
  std::vector<std::string> routes = {};
  std::optional<Ipv6State> ipv6 = {};
  /// The VRF was the pod's own before: it stays when its last interface leaves.
  bool keeps_vrf = false;
  bool operator==(const State&) const = default;

  /// The file of a container's interface, of any network: so the states of the other interfaces in
  /// a VRF are found by their names.
  static std::string file_of(const plugins::StateOwner& owner);
  std::string text() const;
  /// Empty: a torn file. \throws cni::Error: plugins::from_json_text().
  static std::optional<State> from(const std::string& text);
};
using StateDir = plugins::StateDir<State>;

}  // namespace vrf

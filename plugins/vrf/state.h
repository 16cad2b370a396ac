#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/common/state/state_dir.h"
#include "plugins/names/state.h"

namespace vrf {

/// Of net.ipv6.conf.LINK, what is another meanwhile.
struct Ipv6State {
  int keep_addr_on_down = 0, accept_dad = 0;
  bool operator==(const Ipv6State&) const = default;
};

/// What ADD made in a pod's namespace.
struct State {
  static constexpr const char* kDir = names::kVrfStateDir;

  plugins::StateOwner owner = {};
  std::string vrf;
  std::uint32_t table = 0;
  int index = 0;  ///< of the interface, which the pod may rename
  /// As the interface was before it was moved, for what was interrupted on the way: its routes
  /// (netlink::stored()) and settings of IPv6.
  std::vector<std::string> routes = {};
  std::optional<Ipv6State> ipv6 = {};
  /// The VRF was the pod's own before: it stays when its last interface leaves.
  bool keeps_vrf = false;
  bool operator==(const State&) const = default;

  /// Of an interface of a container, whichever network it is of: so the states of the other
  /// interfaces in a VRF are found by their names.
  static std::string file_of(const plugins::StateOwner& owner);
  std::string text() const;
  /// Nothing for another content.
  static std::optional<State> from(const std::string& text);
};
using StateDir = plugins::StateDir<State>;

}  // namespace vrf

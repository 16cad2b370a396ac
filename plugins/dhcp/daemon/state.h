#pragma once

#include <optional>
#include <string>

#include "plugins/dhcp/daemon/client.h"
#include "plugins/names/state.h"
#include "plugins/state/state_dir.h"

namespace dhcp {

/// The ID of this boot; empty: unreadable.
std::string boot_id();

/// The daemon's state of a lease, so that another daemon process goes on with it. Times count from
/// the boot: a file of another boot is worth nothing, since no pod outlives it.
struct State {
  static constexpr const char* kDir = names::kDhcpStateDir;

  plugins::StateOwner owner = {};  ///< its netns as the daemon sees it; empty: unknown
  int link = 0;                    ///< index of the interface in it
  Identity identity = {};
  unsigned priority = 0;            ///< metric of the routes
  bool dns = false;                 ///< whether results have it
  std::optional<Lease> lease = {};  ///< absent: it was lost, and another one is asked for
  std::string boot = boot_id();
  bool operator==(const State&) const = default;

  /// "ID/NETWORK/IFNAME", for messages.
  std::string name() const;
  std::string text() const;
  /// Empty: a torn file, or one of another boot. \throws cni::Error: plugins::from_json_text().
  static std::optional<State> from(const std::string& text, const std::string& boot = boot_id());
};
using StateDir = plugins::StateDir<State>;

/// The result that the lease is.
cni::Result result_of(const State& state);

}  // namespace dhcp

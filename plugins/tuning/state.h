#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/types/mac.h"
#include "plugins/state/state_dir.h"
#include "plugins/tuning/conf.h"

namespace tuning {

/// Settings of an interface; absent: was not changed.
struct LinkSettings {
  std::optional<netlink::Mac> mac = {};
  std::optional<bool> promiscuous = {};
  std::optional<unsigned> mtu = {};  ///< bytes
  std::optional<bool> all_multicast = {};
  std::optional<std::uint32_t> tx_queue_length = {};  ///< packets
  bool operator==(const LinkSettings&) const = default;
};

/// The pod's settings before ADD changed them, a file in `dataDir`. It has the name and the keys of
/// the reference plugin's, so that each plugin's DEL restores what the other's ADD changed; the
/// reference plugin has no key for sysctls.
struct State {
  static constexpr const char* kDir = kDataDir;

  plugins::StateOwner owner = {};  ///< empty in the reference plugin's files
  LinkSettings link = {};
  std::optional<unsigned> host_mtu = {};  ///< bytes, of the host veth
  std::vector<Sysctl> sysctls = {};  ///< paths below /proc/sys/net, in the order of their change
  bool operator==(const State&) const = default;

  static std::string file_of(const plugins::StateOwner& owner);
  std::string text() const;
  /// Empty: a torn file. \throws cni::Error: plugins::from_json_text().
  static std::optional<State> from(const std::string& text);
};
using StateDir = plugins::StateDir<State>;

/// The sysctls of an attachment in a file of their own, as 0.1.0 wrote them.
struct SysctlState : State {
  static std::string file_of(const plugins::StateOwner& owner);
  static std::optional<SysctlState> from(const std::string& text);
};

/// All that is known of an attachment, which the reference plugin and 0.1.0 may have written.
/// \throws as StateDir::read().
std::optional<State> read_state(const StateDir& states, const plugins::StateOwner& owner);
/// GC: what StateDir::taken_by() says of it.
std::vector<plugins::StateOwner> taken_by(cni::Collect& collect, const StateDir& states);
void remove_state(const StateDir& states, const plugins::StateOwner& owner);

}  // namespace tuning

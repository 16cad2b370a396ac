#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libcni/config/result.h"
#include "libcni/daemon/event_loop.h"
#include "netlink/message.h"
#include "netlink/types/mac.h"
#include "plugins/names/state.h"
#include "plugins/state/state_dir.h"

namespace dhcp {

using Time = cni::BootTime;
using cni::kNever;

/// A server's lease, in the terms of a result, with its end.
struct Lease {
  netlink::Cidr address;
  std::optional<netlink::Ip> gateway = {};
  std::vector<cni::Route> routes = {};
  cni::Dns dns = {};
  unsigned mtu = 0;  ///< bytes; 0 is "not stated"
  netlink::Ip server;
  std::optional<netlink::Mac> server_mac = {};  ///< of the server, or of a relay or router
  Time renew = kNever, rebind = kNever, expire = kNever;  ///< T1, T2, end of the lease
  bool operator==(const Lease&) const = default;
};

/// The client's identity and its options.
struct Identity {
  netlink::Bytes client_id = {};                         ///< option 61
  std::map<std::uint8_t, netlink::Bytes> provided = {};  ///< sent with every DISCOVER and REQUEST
  netlink::Bytes wanted = {};                            ///< option 55
  bool broadcast = false;  ///< answers are to be sent to everybody (RFC 2131, section 4.1)
  bool probe = false;      ///< a new address is probed for by ARP before it is used
  bool operator==(const Identity&) const = default;
};

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

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/route/link.h"
#include "netlink/route/socket.h"
#include "netlink/types/mac.h"

/// Ports of bridges and their forwarding database (bridge(8), linux/if_bridge.h).
namespace netlink {

/// What of a port's settings decides whether it takes and sends frames (IFLA_BRPORT_*).
struct BridgePort {
  enum class State : std::uint8_t { kDisabled, kListening, kLearning, kForwarding, kBlocking };
  State state = State::kForwarding;
  bool learning = true;
  bool flood = true, mcast_flood = true, bcast_flood = true;  ///< of frames to nobody known
  bool isolated = false;                                      ///< sends nothing to others that are
  bool locked = false;  ///< takes frames of known senders alone
};
/// "disabled", "blocking", ...
std::string str(BridgePort::State state);
/// Reads an RTM_NEWLINK; empty: it is of no port.
std::optional<BridgePort> decode_bridge_port(const Reply& reply);
/// Empty: the link is none. \throws Error.
std::optional<BridgePort> bridge_port(RouteSocket& socket, const Link& link);

/// An entry of the forwarding database.
struct FdbEntry {
  Mac mac;
  int link = 0;            ///< the port, or the bridge itself
  int master = 0;          ///< the bridge; 0: of a link's own filter
  bool is_static = false;  ///< a person or program made it (NUD_NOARP, NUD_PERMANENT)
  bool is_local = false;   ///< the bridge takes what is for it (NUD_PERMANENT)
  std::uint16_t vlan = 0;  ///< 0: of a bridge that filters none
};
/// Reads an RTM_NEWNEIGH; empty: it is of another family.
std::optional<FdbEntry> decode_fdb_entry(const Reply& reply);
/// Those of one MAC address, of all bridges. \throws Error.
std::vector<FdbEntry> fdb_of(RouteSocket& socket, const Mac& mac);

}  // namespace netlink

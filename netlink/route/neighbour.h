#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "netlink/route/link.h"
#include "netlink/route/request.h"
#include "netlink/route/socket.h"
#include "netlink/types/ip.h"
#include "netlink/types/mac.h"

namespace netlink {

/// Points what the node already believes about ip's hardware address at mac, so that a reused
/// address does not wait for the old belief to expire. Makes no entry where there is none.
RouteRequest correct_neighbour(const Link& link, const Ip& ip, const Mac& mac);

/// What a namespace believes about the hardware address of an address.
struct Neighbour {
  Ip ip;
  int link = 0;
  std::optional<Mac> mac = {};
  std::uint16_t state = 0;  ///< NUD_*
  bool is_permanent() const;
  /// Whether the kernel asks nobody whether it is right (NUD_PERMANENT, NUD_NOARP).
  bool is_fixed() const;
  /// Whether the kernel has heard from it lately (NUD_REACHABLE).
  bool is_confirmed() const;
  /// Whether nobody has answered (NUD_INCOMPLETE, NUD_FAILED).
  bool has_failed() const;
  bool operator==(const Neighbour&) const = default;
};
/// Of an RTM_NEWNEIGH; empty: one of another family, as of a bridge.
std::optional<Neighbour> decode_neighbour(const Reply& reply);
/// All of the socket's namespace. \throws Error.
std::vector<Neighbour> neighbours(RouteSocket& socket);
/// The one of an address on a link; empty: none. \throws Error.
std::optional<Neighbour> find_neighbour(RouteSocket& socket, int link, const Ip& ip);
/// Has the kernel believe it, and ask that host alone whether it is right (NUD_PROBE). One that is
/// there already stays: EEXIST.
RouteRequest introduce(const Neighbour& one);
/// One that is gone is tolerated.
RouteRequest remove(const Neighbour& one);

}  // namespace netlink

#pragma once

#include <cstdint>
#include <optional>

#include "netlink/route/link.h"
#include "netlink/route/request.h"
#include "netlink/tc/handle.h"

namespace netlink::tc {

/// A class of an HTB qdisc, to make or as the kernel showed it.
struct HtbClass {
  Handle parent = kNone;  ///< kRoot, or the class it borrows from
  Handle id = kNone;
  std::uint64_t rate = 0, ceil = 0;       ///< bytes/s
  std::uint32_t buffer = 0, cbuffer = 0;  ///< the buckets, in Ticks of rate and ceil
  bool operator==(const HtbClass&) const = default;
};

/// Creates it, or changes what is there without losing a packet.
RouteRequest replace(const Link& link, const HtbClass& wanted);
/// Tolerates that there is none. EBUSY while it has classes or filters.
RouteRequest remove(const Link& link, const HtbClass& wanted);

/// Reads an RTM_NEWTCLASS. Nothing for the classes of other qdiscs.
std::optional<HtbClass> decode_htb_class(const Reply& reply);

}  // namespace netlink::tc

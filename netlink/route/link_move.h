#pragma once

#include <optional>
#include <string>

#include "netlink/netns.h"
#include "netlink/route/link.h"
#include "netlink/route/request.h"

namespace netlink {

/// The target namespace of a link, and its name there.
struct LinkMove {
  NetNs to;
  std::string name;
  std::optional<std::string> alias = {};  ///< absent: stays
  /// The index it is to have there, EBUSY where it is taken; 0: as now, or the next free one.
  /// Kernels before 5.13 pass over it.
  int index = 0;
};

/// Moves a link to another namespace under another name, in one message; the kernel sets it down
/// and flushes its addresses and routes. The caller makes sure that no link there has the name: the
/// kernel renames after the move (do_setlink() in net/core/rtnetlink.c), so that with EEXIST the
/// link is there under its old name. Only where that is taken there, too, is it not moved at all.
RouteRequest move_link(const Link& link, const LinkMove& move);

}  // namespace netlink

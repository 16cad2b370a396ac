#pragma once

#include <optional>

#include "libcni/plugin/request.h"
#include "netlink/route/socket.h"

namespace plugins {

/// For DEL of what no state file of the node tells of, as what a reference plugin changed: the
/// interface CNI_IFNAME of the pod if it provably is that of prevResult, by its MAC address and, if
/// prevResult has some, by an address. Another container may have the path of the namespace by now,
/// and the name proves nothing. \throws netlink::Error.
std::optional<netlink::Link> interface_of_prev_result(netlink::RouteSocket& pod,
                                                      const cni::Request& request);

}  // namespace plugins

#pragma once

#include <string>

#include "libcni/config/result.h"
#include "netlink/route/socket.h"
#include "plugins/ptp/routing.h"

/// A pod's objects on the node besides its masquerading.
namespace ptp {

/// Turns forwarding on, and sets the host veth up with its alias, the gateway addresses, which are
/// usable at once, and the routes to the pod. For REPAIR too: what exists stays.
/// \throws netlink::Error; cni::Error where an address of the pod is another link's.
void open_host_veth(netlink::RouteSocket& host, const netlink::Link& outside,
                    const Routing& routing, const std::string& alias);

/// CHECK: what open_host_veth() made. \throws cni::Error naming the first difference.
void check_host_veth(netlink::RouteSocket& host, const netlink::Link& outside,
                     const Routing& routing);

}  // namespace ptp

#pragma once

#include <optional>

#include "libcni/result.h"
#include "netlink/route/socket.h"

namespace bandwidth {

/// The other end of the pod's veth, on the node; a later one of these rules refuses: it is a veth
/// whose other end has the index of inside, and the result names it as an interface of the node.
/// \throws cni::Error naming what is missing.
netlink::Link host_end(netlink::RouteSocket& host, const netlink::Link& inside,
                       const cni::Result& result);

/// The same, where its absence is fine. Without a result the kernel's word will do.
std::optional<netlink::Link> find_host_end(netlink::RouteSocket& host, const netlink::Link& inside,
                                           const cni::Result* result);

}  // namespace bandwidth

#pragma once

#include <optional>

#include "libcni/config/result.h"
#include "plugins/common/host_veth.h"

namespace bandwidth {

/// The pod's interface, and where it is.
struct Inside {
  const netlink::NetNs& ns;
  const netlink::Link& link;
};

/// The host veth of the pod's interface; a later one of these rules refuses: it is a veth, its
/// other end is on the host and no other attachment's (plugins::host_veth_of()), and the result
/// names it. \throws cni::Error naming what is missing.
netlink::Link host_end(netlink::RouteSocket& host, const cni::Request& request,
                       const Inside& inside, const cni::Result& result);

/// The same, where its absence is fine.
std::optional<netlink::Link> find_host_end(netlink::RouteSocket& host, const cni::Request& request,
                                           const Inside& inside, const cni::Result& result);

}  // namespace bandwidth

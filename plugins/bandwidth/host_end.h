#pragma once

#include <optional>

#include "libcni/config/result.h"
#include "plugins/common/link/host_veth.h"

namespace bandwidth {

/// The pod's interface, and where it is.
struct Inside {
  const netlink::NetNs& ns;
  const netlink::Link& link;
};

/// The host veth of the container interface. It must be a veth whose peer is on the host and
/// belongs to no other attachment (plugins::host_veth_of()), and the result must name it. \throws
/// cni::Error naming what is missing.
netlink::Link host_end(netlink::RouteSocket& host, const cni::Request& request,
                       const Inside& inside, const cni::Result& result);

/// The same; its absence is no error.
std::optional<netlink::Link> find_host_end(netlink::RouteSocket& host, const cni::Request& request,
                                           const Inside& inside, const cni::Result& result);

}  // namespace bandwidth

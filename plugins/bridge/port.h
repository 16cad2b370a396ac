#pragma once

#include <optional>
#include <vector>

#include "libcni/common/undo.h"
#include "netlink/route/socket.h"
#include "plugins/bridge/conf.h"
#include "plugins/common/masquerade.h"

namespace bridge {

/// A pod's veth pair.
struct Port {
  netlink::Link outside;  ///< the host veth, a port of the bridge
  netlink::Link inside;   ///< the container interface, CNI_IFNAME
};

/// What one call works with: request, config, and a socket in the node's and the pod's namespace.
struct Context {
  const cni::Request& request;
  const Conf& conf;
  netlink::RouteSocket& host;
  netlink::RouteSocket& pod;
  const netlink::NetNs& pod_ns;
};

/// Creates the veth pair, both interfaces down, the host veth a port of bridge with router
/// advertisements disabled. Its undo step is registered before. \throws cni::Error if the pod has
/// an interface with that name.
Port connect_pod(const Context& context, const netlink::Link& bridge, cni::Undo& undo);

/// Sets VLANs, flags and alias (the owner) of the port, and sets it up.
void open_port(const Context& context, const Port& port, const netlink::Link& bridge);

/// Restores the host veth of an existing container interface as connect_pod() and open_port() set
/// it: a port of bridge with the config's VLANs and flags, up.
void restore_port(const Context& context, const Port& port, const netlink::Link& bridge);

/// Waits until the bridge forwards the port's frames. \throws cni::Error after 2.5 seconds.
void wait_for_port(netlink::RouteSocket& host, const netlink::Link& outside);

/// Removes the host veth of a request's attachment, and with it the container interface. See
/// plugins::removable_host_veths(); none is fine. \throws netlink::Error.
void remove_port(const cni::Request& request);

/// What ADD masquerades.
plugins::Masquerade masquerade_of(const cni::Request& request, const cni::Result& result);

/// What DEL looks for: by the addresses of prevResult, else as the pod's interface has them; none
/// where both are gone.
plugins::Masquerade masquerade_to_remove(const cni::Request& request);

}  // namespace bridge

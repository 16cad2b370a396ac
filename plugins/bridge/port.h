#pragma once

#include <optional>
#include <vector>

#include "libcni/common/undo.h"
#include "netlink/route/socket.h"
#include "plugins/bridge/conf.h"
#include "plugins/common/masquerade.h"

namespace bridge {

/// The two ends of a pod's veth pair.
struct Port {
  netlink::Link outside;  ///< the bridge's port, in the node's namespace
  netlink::Link inside;   ///< CNI_IFNAME, in the pod's
};

/// What one call works with: request, config, and a socket in the node's and the pod's namespace.
struct Context {
  const cni::Request& request;
  const Conf& conf;
  netlink::RouteSocket& host;
  netlink::RouteSocket& pod;
  const netlink::NetNs& pod_ns;
};

/// Makes the veth pair, both ends down, the outer one a port of bridge that ignores router
/// advertisements. What removes it again is in undo before it is made.
/// \throws cni::Error where the pod has an interface of that name already.
Port connect_pod(const Context& context, const netlink::Link& bridge, cni::Undo& undo);

/// Puts the port into its VLANs, sets its flags and its alias (whose it is), and sets it up.
void open_port(const Context& context, const Port& port, const netlink::Link& bridge);

/// Makes the outer end, of which the inner one is in use, what connect_pod() and open_port() made
/// of it: a port of bridge with the config's VLANs and flags, up.
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

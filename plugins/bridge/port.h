#pragma once

#include <optional>
#include <vector>

#include "libcni/common/undo.h"
#include "netlink/route/socket.h"
#include "plugins/bridge/link.h"
#include "plugins/common/link/veth_pair.h"

namespace bridge {

/// A pod's veth pair; the host veth is a port of the bridge.
using Port = plugins::VethPair;

/// plugins::create_veth_pair() with the host veth as a port of bridge. \throws as that; cni::Error
/// if the bridge has no room.
Port connect_pod(const Context& context, const netlink::Link& bridge, cni::Undo& undo);

/// Sets VLANs, flags and alias (the owner) of the port, and sets it up.
void open_port(const Context& context, const Port& port, const netlink::Link& bridge);

/// Restores the host veth of an existing container interface as connect_pod() and open_port() set
/// it: a port of bridge with the config's VLANs and flags, up.
void restore_port(const Context& context, const Port& port, const netlink::Link& bridge);

/// Waits until the bridge forwards the port's frames. \throws cni::Error after 2.5 seconds.
void wait_for_port(netlink::RouteSocket& host, const netlink::Link& outside);

}  // namespace bridge

#pragma once

#include <optional>

#include "netlink/netns.h"
#include "netlink/route/socket.h"
#include "plugins/dhcp/daemon/client.h"
#include "plugins/state/dhcp_lease.h"

/// The interface of an attachment, in the pod's namespace. Nothing here stays open: what is open
/// keeps the namespace of a pod alive that was removed.
namespace dhcp {

struct OpenInterface {
  netlink::NetNs ns;
  netlink::RouteSocket socket;
  netlink::Link link;
};

/// Empty: the path is no namespace any more, or another one, or the interface was removed.
/// \throws netlink::Error if that is unknown.
std::optional<OpenInterface> find_pod(const State& state);

/// Changes the interface from one lease to the next, each of which may be none: address, routes of
/// the lease, MTU. Routes of others stay, and those by way of the old gateway lead to the new one.
/// Refused routes are logged, not thrown. \throws netlink::Error.
void configure(OpenInterface& pod, const State& before, const State& after);

/// Makes the kernel remove the address at the end of the lease, which no daemon is needed for.
/// False if the interface does not have the address. \throws netlink::Error.
bool set_lifetime(OpenInterface& pod, const Lease& lease, Time now);

/// Sets the MTU that the lease has, if it is a smaller one. \throws netlink::Error.
void set_mtu(OpenInterface& pod, const Lease& lease);

/// Sends a message over the interface. One that is down, as after a failed ADD, is up meanwhile. It
/// tries twice, since nobody asks again for a RELEASE that failed where memory lacked for a moment.
/// \throws netlink::Error.
void send_over(OpenInterface& pod, const Outgoing& outgoing);

}  // namespace dhcp

#pragma once

#include <optional>
#include <string>

#include "libcni/plugin/request.h"
#include "netlink/route/socket.h"

/// The device on the node that what a pod sends is redirected to, to wait there.
namespace bandwidth {

/// The attachment's device. One without an alias is the reference's, and taken for its own.
std::optional<netlink::Link> find_ifb(netlink::RouteSocket& host, const cni::Request& request);

/// Makes it, up and with an alias that says whose it is, or returns the one that is there. Its name
/// is the reference's, which follows from network and container; a second interface of the
/// container in the network gets another one.
/// \throws cni::Error where somebody else's link has the names.
netlink::Link ensure_ifb(netlink::RouteSocket& host, const cni::Request& request, unsigned mtu);

/// Leads everything that outside receives, which is what the pod sends, to the ifb.
/// \throws cni::Error where somebody else filters there.
void redirect(netlink::RouteSocket& host, const netlink::Link& outside, const netlink::Link& ifb);

/// Takes that back; others' filters stay. To be done before the ifb is removed: what is redirected
/// to a device that is gone is dropped.
void remove_redirect(netlink::RouteSocket& host, const netlink::Link& outside,
                     const netlink::Link& ifb);

/// Why what outside receives does not go to the ifb, or nothing.
std::optional<std::string> redirect_missing(netlink::RouteSocket& host,
                                            const netlink::Link& outside, const netlink::Link& ifb);

}  // namespace bandwidth

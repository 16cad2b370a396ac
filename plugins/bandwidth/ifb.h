#pragma once

#include <optional>
#include <string>

#include "libcni/plugin/request.h"
#include "netlink/route/socket.h"

/// The ifb device on the node, to which egress traffic is redirected.
namespace bandwidth {

/// The attachment's device. One without an alias is the reference plugin's and counts as the
/// attachment's.
std::optional<netlink::Link> find_ifb(netlink::RouteSocket& host, const cni::Request& request);

/// Creates it, up and with an alias that names the owner, or returns the existing one. Its name is
/// that of the reference plugin, a hash of network and container ID; a second interface of the
/// container in the network gets another name.
/// \throws cni::Error if other links have the names.
netlink::Link ensure_ifb(netlink::RouteSocket& host, const cni::Request& request, unsigned mtu);

/// Redirects all ingress of outside, the egress of the pod, to the ifb.
/// \throws cni::Error if another program's filter or qdisc is attached.
void redirect(netlink::RouteSocket& host, const netlink::Link& outside, const netlink::Link& ifb);

/// Removes the redirection; other programs' filters stay. Call it before the ifb is removed,
/// because traffic that is redirected to a removed device is dropped.
void remove_redirect(netlink::RouteSocket& host, const netlink::Link& outside,
                     const netlink::Link& ifb);

/// Why the traffic is not redirected to the ifb, or nothing.
std::optional<std::string> redirect_missing(netlink::RouteSocket& host,
                                            const netlink::Link& outside, const netlink::Link& ifb);

}  // namespace bandwidth

#pragma once

#include "netlink/route/request.h"
#include "netlink/route/socket.h"
#include "netlink/types/ip.h"

/// What an ICMPv6 error has taught a kernel about the path to one host (RFC 8201): the path's MTU,
/// which it keeps for net.ipv6.route.mtu_expires, usually ten minutes. IPv4 has the same, and no
/// request that removes one of them (ip_rt_ioctl() and inet_rtm_delroute() in net/ipv4).
namespace netlink {

/// Whether packets to an IPv6 address have one. False for IPv4. \throws Error.
bool has_path_exception(RouteSocket& socket, const Ip& destination);
/// One that is not there is tolerated. Those of the main table.
RouteRequest remove_path_exception(const Ip& destination);

}  // namespace netlink

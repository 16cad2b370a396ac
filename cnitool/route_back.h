#pragma once

#include <string>

#include "netlink/route/link.h"

/// The kernel removes the default route with the link that it leads by, and does not bring it back.
namespace tool {

/// The command that brings back the default route of IPv4 by a link that is up: that of whoever
/// manages it (systemd-networkd, NetworkManager, ifupdown), by what it keeps below /run, or a route
/// via the router of a DHCP lease that has not run out. Empty: nothing here knows it.
std::string route_back(const netlink::Link& link);

/// What a person does where it went with the link: sets it up, and route_back(), or says in a
/// comment that the route is lost.
std::string up_with_route(const netlink::Link& link);

}  // namespace tool

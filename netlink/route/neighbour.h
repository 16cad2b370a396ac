#pragma once

#include "netlink/route/link.h"
#include "netlink/route/request.h"

namespace netlink {

/// Points what the node already believes about ip's hardware address at mac, so that a reused
/// address does not wait for the old belief to expire. Makes no entry where there is none.
RouteRequest correct_neighbour(const Link& link, const Ip& ip, const Mac& mac);

}  // namespace netlink

#pragma once

#include <string_view>

#include "netlink/route/socket.h"

namespace netlink::tc {

/// Whether the kernel can make qdiscs of a kind ("fq_codel"); loads the module where there is one.
/// Nothing is made. \throws netlink::Error.
bool knows_qdisc(RouteSocket& socket, std::string_view kind);
/// The same for the actions of filters ("mirred").
bool knows_action(RouteSocket& socket, std::string_view kind);

}  // namespace netlink::tc

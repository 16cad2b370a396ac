#pragma once

#include <optional>
#include <vector>

#include "netlink/route/socket.h"
#include "netlink/tc/filter.h"
#include "netlink/tc/htb_class.h"
#include "netlink/tc/qdisc.h"

/// Dumps the qdiscs, classes and filters of a link. Everything throws netlink::Error.
namespace netlink::tc {

/// The qdisc at a parent of the link: kRoot, kHook, or a class. Nothing where there is none but the
/// one that the kernel puts there itself, which has no handle.
std::optional<QdiscState> qdisc(RouteSocket& socket, const Link& link, Handle parent);
/// The filters of a qdisc, or of kIngress or kEgress. None where there is no such qdisc.
std::vector<FilterState> filters(RouteSocket& socket, const Link& link, Handle parent);
/// The classes of a link whose root qdisc is an HTB.
std::vector<HtbClass> htb_classes(RouteSocket& socket, const Link& link);

}  // namespace netlink::tc

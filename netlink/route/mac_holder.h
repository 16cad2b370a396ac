#pragma once

#include <string>

#include "netlink/netns.h"
#include "netlink/route/request.h"

namespace netlink {

/// ": link 'eth0' has it": who keeps a link of the namespace from its MAC address, to be appended.
/// Links are looked for there and in the thread's namespace. Empty: unknown.
std::string holder_of(const NetNs& where, const MacUse& wanted);

}  // namespace netlink

#pragma once

#include <vector>

#include "cnitool/doctor/node.h"
#include "cnitool/settings.h"
#include "cnitool/waiting.h"
#include "libcni/plugin/request.h"
#include "libcni/runtime/runtime.h"
#include "netlink/nf/conntrack.h"

namespace tool::doctor {

/// Reads all that there is to know, and changes nothing. Of plugins VERSION, STATUS, and REPAIR and
/// GC that only look are called. \param which the attachments that are looked at.
Node look_at_node(const Settings& settings, const Selection& which, const cni::Env& env,
                  Steps& steps);

/// The tracked connections of each family of which the node has no default route: a node that never
/// had one has none of its pods with hosts without a route.
std::vector<netlink::nf::Flow> stranded_connections(const Node& node);

}  // namespace tool::doctor

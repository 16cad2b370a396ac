#pragma once

#include <vector>

#include "cnitool/doctor/finding.h"
#include "cnitool/probe/question.h"

/// Default routes that a node has lost, so that there is nobody to send a probe to.
namespace tool::probe {

/// Where pods that are asked about have a default route and the node has none: of IPv4 the links
/// with an address that do not work, else the tracked connections of pods with hosts without a
/// route, which had one when they began. A node may need no default route: without such connections
/// a note says what was not asked. \throws netlink::Error.
doctor::Findings lost_ways_out(const std::vector<Subject>& subjects, const std::vector<bool>& asked,
                               const NodeFacts& node);

/// The gateways of the node's default routes for which nobody answers on their links, and which
/// pods that are asked about depend on: each hop of the route that decides, link-local ones of
/// IPv6, too. A route that refuses, and a gateway that the node takes for itself. \throws
/// netlink::Error.
doctor::Findings silent_ways_out(const std::vector<Subject>& subjects,
                                 const std::vector<bool>& asked);

}  // namespace tool::probe

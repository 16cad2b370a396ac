#pragma once

#include <vector>

#include "cnitool/doctor/finding.h"
#include "cnitool/probe/question.h"

/// Default routes that a node has lost, so that there is nobody to send a probe to.
namespace tool::probe {

/// Where pods that are asked about have a default route of IPv4 and the node has none: links with
/// an address that do not work. A node may need no default route, and nothing is said where all
/// links work. \throws netlink::Error.
doctor::Findings lost_ways_out(const std::vector<Subject>& subjects, const std::vector<bool>& asked,
                               const NodeFacts& node);

}  // namespace tool::probe

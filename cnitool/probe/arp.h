#pragma once

#include <vector>

#include "cnitool/doctor/finding.h"
#include "cnitool/probe/pacer.h"
#include "cnitool/probe/question.h"

namespace tool::probe {

/// Asks from each of these pods for its IPv4 gateway, if that is the node's, by ARP probes (RFC
/// 5227), which change no cache: pods that know the node's MAC address do not ask, and are cut when
/// they forget it. \throws netlink::Error.
doctor::Findings silent_gateways(const std::vector<Subject>& subjects,
                                 const std::vector<bool>& asked, const NodeFacts& node,
                                 Pacer& pacer);

}  // namespace tool::probe

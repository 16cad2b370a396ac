#pragma once

#include <string>
#include <vector>

#include "cnitool/probe/question.h"

/// What takes packets of pods, or answers to them, where no probe comes by and no kernel says it.
namespace tool::probe {

/// eBPF programs of the control groups of pods that are asked about, and that cnitool's own has
/// not; a sentence for each pod. \throws netlink::Error.
std::vector<std::string> unseen_programs(const std::vector<Subject>& subjects,
                                         const std::vector<bool>& asked);
/// XDP programs of the drivers of the node's uplinks: a sentence each. \throws netlink::Error.
std::vector<std::string> unseen_drivers(const NodeFacts& facts);

}  // namespace tool::probe

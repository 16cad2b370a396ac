#pragma once

#include "cnitool/graph_model.h"
#include "cnitool/probe/probe.h"

namespace tool {

/// Marks the ways of a drawing that probes did not pass, with their causes: the pod's own one, or
/// that of its network to the uplink.
void mark_broken(const probe::Outcome& outcome, Graph& graph);

}  // namespace tool

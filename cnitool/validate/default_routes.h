#pragma once

#include <list>

#include "cnitool/validate/diagnostics.h"
#include "cnitool/validate/network_text.h"

namespace tool {

/// Warns where two networks of one pod have a default route of the same family and metric, of those
/// that host-local and static say: the one takes the other's place.
void check_default_routes(const std::list<NetworkText>& networks, Diagnostics& diagnostics);

}  // namespace tool

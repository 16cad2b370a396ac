#pragma once

#include <list>

#include "cnitool/validate/diagnostics.h"
#include "cnitool/validate/network_text.h"
#include "cnitool/validate/plugin_facts.h"

namespace tool {

/// Looks at what only shows across the plugins of a network, or across keys that are right each: an
/// order in which ADD fails, capabilities without which a plugin has nothing to do, gateways that
/// no address of the pod leads to.
void check_chain(const NetworkText& network, Plugins& plugins, Diagnostics& diagnostics);

/// Looks at what only shows across networks: names that hide each other, and subnets out of which
/// two would give the same address.
void check_together(const std::list<NetworkText>& networks, Diagnostics& diagnostics);

}  // namespace tool

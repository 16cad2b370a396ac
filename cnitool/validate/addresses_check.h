#pragma once

#include "cnitool/validate/diagnostics.h"
#include "cnitool/validate/network_text.h"

namespace tool {

/// Warns of addresses and routes of a plugin's "ipam" that a pod cannot use.
void check_addresses(const PluginText& plugin, Diagnostics& diagnostics);

}  // namespace tool

#pragma once

#include "cnitool/validate/diagnostics.h"
#include "cnitool/validate/network_text.h"
#include "cnitool/validate/plugin_facts.h"

namespace tool {

/// Checks each plugin of a network against what its executable says: that it is there and speaks
/// the network's version, its schema, that of the IPAM plugin it calls, and what their parsers
/// refuse besides. Of a plugin that has no schema only the keys of the spec are checked, which is
/// noted once for each.
///
/// A misspelt key is respelled in the document once it is named, so that its value is checked too.
/// Sets the facts of each plugin, for check_chain() and what comes after it.
void check_plugins(NetworkText& network, Plugins& plugins, Diagnostics& diagnostics);

/// Whether a plugin hands its config to an IPAM plugin as it stands: those of patchbay and of the
/// reference do; others may rewrite it first, as Calico its "usePodCidr".
bool passes_ipam_on(const PluginText& plugin, Plugins& plugins);

}  // namespace tool

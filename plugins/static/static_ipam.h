#pragma once

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/request.h"

namespace static_ipam {

/// The plugin's name and verbs.
extern const cni::Plugin kPlugin;

/// Returns the addresses, routes and DNS of the config. The plugin has no state, so there is
/// nothing to undo, and nothing for DEL and GC to do. \throws cni::Error: 4, 7.
cni::Result add(const cni::Request& request, cni::Undo& undo);
/// \throws cni::Error where prevResult lacks an address of the config, or has it with another
/// prefix length or gateway; 4, 7.
void check(const cni::Request& request);
/// \throws cni::Error(kInvalidConfig) for a config that ADD would reject.
void status(const cni::Request& request);
/// \throws cni::Error where ADD would reject the input, on any node.
void validate(const cni::Request& request);

}  // namespace static_ipam

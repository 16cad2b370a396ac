#pragma once

#include "libcni/plugin.h"
#include "libcni/request.h"
#include "libcni/result.h"
#include "libcni/undo.h"

namespace static_ipam {

/// The plugin as a program has it: its name and its verbs.
extern const cni::Plugin kPlugin;

/// Gives the addresses, routes and DNS of the config as the result. Nothing is kept, hence there
/// is nothing to undo, and nothing for DEL and GC to do. \throws cni::Error: 4, 7.
cni::Result add(const cni::Request& request, cni::Undo& undo);
/// \throws cni::Error where prevResult lacks an address of the config, or has it with another
/// prefix length or gateway; 4, 7.
void check(const cni::Request& request);
/// \throws cni::Error(kInvalidConfig) for a config that ADD would refuse.
void status(const cni::Request& request);
/// \throws cni::Error where ADD would refuse the input, whatever the node is like.
void validate(const cni::Request& request);

}  // namespace static_ipam

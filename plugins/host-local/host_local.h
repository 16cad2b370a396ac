#pragma once

#include "libcni/plugin.h"
#include "libcni/request.h"
#include "libcni/result.h"
#include "libcni/undo.h"

namespace host_local {

/// The plugin as a program has it: its name and its verbs.
extern const cni::Plugin kPlugin;

/// Reserves one address out of every range set. \throws as allocate(), Conf::parse(), take_lock().
cni::Result add(const cni::Request& request, cni::Undo& undo);
/// \throws cni::Error where the attachment has no address, or the config is wrong.
void check(const cni::Request& request);
/// Frees what the attachment has in the network. Needs no valid config and makes no directory.
void del(const cni::Request& request);
/// Frees what no valid attachment has; nothing without a list. \throws where it is malformed.
void gc(const cni::Request& request);
/// \throws cni::Error: 7 for a wrong config, 50 where a range set has no address left.
void status(const cni::Request& request);
/// \throws cni::Error where ADD would refuse the input, whatever the node is like.
void validate(const cni::Request& request);

}  // namespace host_local

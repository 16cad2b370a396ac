#pragma once

#include "libcni/key.h"
#include "libcni/plugin.h"
#include "libcni/repair.h"
#include "libcni/request.h"
#include "libcni/undo.h"

namespace loopback {

/// The plugin as a program has it: its name and its verbs.
extern const cni::Plugin kPlugin;

extern const cni::Manual kManual;

/// Sets "lo" of the pod up. Whatever CNI_IFNAME says, the link is "lo".
cni::Result add(const cni::Request& request, cni::Undo& undo);
/// Sets it down; a namespace that is gone needs nothing.
void del(const cni::Request& request);
/// \throws cni::Error where "lo" is down.
void check(const cni::Request& request);
/// There is nothing outside the pod's namespace to collect.
void gc(const cni::Request& request);
/// Always ready: every kernel has a loopback device.
void status(const cni::Request& request);
/// \throws cni::Error where ADD would refuse the input, whatever the node is like.
void validate(const cni::Request& request);

/// Sets "lo" up where it is down.
cni::Result repair(const cni::Request& request, cni::Repair& repair);

}  // namespace loopback

#pragma once

#include "libcni/common/undo.h"
#include "libcni/config/key.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"

namespace loopback {

/// The plugin's name and verbs.
extern const cni::Plugin kPlugin;

extern const cni::Manual kManual;

/// Sets "lo" up in the pod. CNI_IFNAME is ignored.
cni::Result add(const cni::Request& request, cni::Undo& undo);
/// Sets "lo" down; succeeds if the namespace does not exist.
void del(const cni::Request& request);
/// \throws cni::Error where "lo" is down.
void check(const cni::Request& request);
/// Nothing to collect: the plugin changes nothing outside the pod's namespace.
void gc(const cni::Request& request);
/// \throws cni::Error where a capability is missing; every kernel has a loopback device.
void status(const cni::Request& request);
/// \throws cni::Error where ADD would reject the input, on any node.
void validate(const cni::Request& request);

/// Sets "lo" up where it is down.
cni::Result repair(const cni::Request& request, cni::Repair& repair);

}  // namespace loopback

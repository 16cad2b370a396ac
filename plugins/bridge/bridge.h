#pragma once

#include "libcni/common/undo.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"

namespace bridge {

/// The plugin's name and verbs, for main().
extern const cni::Plugin kPlugin;

/// Connects the pod to the bridge by a veth pair, and adds addresses if the config has an IPAM
/// plugin.
cni::Result add(const cni::Request& request, cni::Undo& undo);

/// Removes what ADD created, from the config alone: with or without namespace, prevResult and
/// bridge; after half an ADD; twice.
void del(const cni::Request& request);

/// \throws cni::Error naming the first difference to what ADD created.
void check(const cni::Request& request);

/// Removes everything of this network whose attachment is not in the list, and calls GC of the
/// IPAM plugin.
void gc(const cni::Request& request);

/// \throws cni::Error(kPluginUnavailable) naming what is missing on this node for an ADD.
void status(const cni::Request& request);

/// \throws cni::Error if ADD would reject the input on any node.
void validate(const cni::Request& request);

/// Restores what is missing on the node: the bridge with its MAC address in the result, the port,
/// gateway address, masquerading, rules of macspoofchk. The container interface must exist and is
/// not changed. IPAM is not called.
cni::Result repair(const cni::Request& request, cni::Repair& repair);

}  // namespace bridge

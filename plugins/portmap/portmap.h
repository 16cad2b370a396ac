#pragma once

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"

/// Makes ports of a pod reachable at the node's addresses (hostPort). Chained after the plugin that
/// gave the pod its addresses; the result is passed on as it came.
namespace portmap {

/// The plugin as a program has it: its name and its verbs.
extern const cni::Plugin kPlugin;

/// Maps what runtimeConfig.portMappings names; without any it asks nothing of the kernel.
/// \throws cni::Error: kPortInUse, kPortDenied; kInvalidConfig.
cni::Result add(const cni::Request& request, cni::Undo& undo);

/// Takes the mappings down, whoever made them: known from the container's record, else from the
/// config. Without either it asks nothing of the kernel.
void del(const cni::Request& request);

/// \throws cni::Error naming the first thing that is not as ADD left it.
void check(const cni::Request& request);

/// Removes every mapping of this network whose attachment is not to be kept.
void gc(const cni::Request& request);

/// \throws cni::Error(kPluginUnavailable) naming what is missing on this node for an ADD.
void status(const cni::Request& request);

/// \throws cni::Error where ADD would refuse the input, whatever the node is like.
void validate(const cni::Request& request);

/// Maps again what is not mapped any more, with the backend that had it.
/// \throws as add().
cni::Result repair(const cni::Request& request, cni::Repair& repair);

}  // namespace portmap

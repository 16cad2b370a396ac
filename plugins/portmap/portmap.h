#pragma once

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"

/// Maps ports of the node to ports of a pod (hostPort). Chained after the plugin that assigns the
/// pod's addresses; returns its result unchanged.
namespace portmap {

/// The name and the verbs.
extern const cni::Plugin kPlugin;

/// Maps runtimeConfig.portMappings. Without any it sends no request to the kernel.
/// \throws cni::Error: kPortInUse, kPortDenied; kInvalidConfig.
cni::Result add(const cni::Request& request, cni::Undo& undo);

/// Removes the mappings that the container's state file names, else those of the config, also if
/// the reference plugin added them. Without either it sends no request to the kernel.
void del(const cni::Request& request);

/// \throws cni::Error, which names the first difference from what ADD adds.
void check(const cni::Request& request);

/// Removes all mappings of this network whose attachment is not valid.
void gc(const cni::Request& request);

/// \throws cni::Error(kPluginUnavailable), which names what ADD needs and the node lacks.
void status(const cni::Request& request);

/// \throws cni::Error if ADD would reject the input on any node.
void validate(const cni::Request& request);

/// Maps again what CHECK misses, in the backend that the attachment has.
/// \throws as add().
cni::Result repair(const cni::Request& request, cni::Repair& repair);

}  // namespace portmap

#pragma once

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"

/// The verbs of the bandwidth plugin: rate limits for ingress and egress traffic of a pod.
namespace bandwidth {

/// The plugin's name and verbs, for main().
extern const cni::Plugin kPlugin;

/// Returns the previous plugin's result, with the ifb device (egressMode "ifb") added.
/// Existing limits are changed in place; connections continue.
cni::Result add(const cni::Request& request, cni::Undo& undo);
void del(const cni::Request& request);
void check(const cni::Request& request);
void gc(const cni::Request& request);
void status(const cni::Request& request);
/// \throws cni::Error if ADD would reject the input on any node.
void validate(const cni::Request& request);

/// Sets the limits again if one differs from the config.
cni::Result repair(const cni::Request& request, cni::Repair& repair);

}  // namespace bandwidth

#pragma once

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"

/// The verbs of the bandwidth plugin: limits what a pod sends and receives.
namespace bandwidth {

/// The plugin as a program has it: its name and its verbs.
extern const cni::Plugin kPlugin;

/// Returns the previous plugin's result, and with a device on the node (egressMode "ifb") that too.
/// An attachment that has limits gets the new ones without losing a connection.
cni::Result add(const cni::Request& request, cni::Undo& undo);
void del(const cni::Request& request);
void check(const cni::Request& request);
void gc(const cni::Request& request);
void status(const cni::Request& request);
/// \throws cni::Error where ADD would refuse the input, whatever the node is like.
void validate(const cni::Request& request);

/// Sets the limits again where one of them is not as the config says.
cni::Result repair(const cni::Request& request, cni::Repair& repair);

}  // namespace bandwidth

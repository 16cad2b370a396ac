#pragma once

#include "libcni/common/undo.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"

namespace bridge {

/// The plugin as a program has it: its name and its verbs.
extern const cni::Plugin kPlugin;

/// Connects the pod to the node's bridge by a veth pair, and gives it addresses where the config
/// has an IPAM plugin.
cni::Result add(const cni::Request& request, cni::Undo& undo);

/// Takes down what ADD made, from the config alone: with or without namespace, previous result,
/// bridge; after half an ADD; twice.
void del(const cni::Request& request);

/// \throws cni::Error naming the first thing that is not as ADD left it.
void check(const cni::Request& request);

/// Takes down everything of this network whose attachment is not to be kept, and asks the IPAM
/// plugin for the same.
void gc(const cni::Request& request);

/// \throws cni::Error(kPluginUnavailable) naming what is missing on this node for an ADD.
void status(const cni::Request& request);

/// \throws cni::Error where ADD would refuse the input, whatever the node is like.
void validate(const cni::Request& request);

/// Makes again what is not on the node any more of what ADD made: the bridge with its hardware
/// address of then, the port, gateway, masquerading, MAC address check. The pod's interface
/// has to be there, and stays as it is; IPAM is not asked.
cni::Result repair(const cni::Request& request, cni::Repair& repair);

}  // namespace bridge

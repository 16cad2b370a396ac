#pragma once

#include "cnitool/doctor/node.h"
#include "libcni/runtime/runtime.h"

/// What is known of the plugins, from their files and their answers.
namespace tool::doctor {

/// All that the networks name, IPAM plugins too.
std::vector<PluginFile> programs_of(const cni::Networks& networks,
                                    const cni::RuntimeOptions& options);

/// Asks STATUS of every plugin that knows it, whatever the version of its network is.
std::vector<Complaint> complaints_of(const cni::Networks& networks,
                                     const std::vector<PluginFile>& programs,
                                     cni::RuntimeOptions options);

/// Asks the plugins of the attachments in the cache what repair would find; but those whose ADD may
/// go on.
std::vector<Repaired> looks_of(const Node& node, const cni::RuntimeOptions& options);

/// leftovers_of() every network with a config, and of every removed one that has left its name:
/// in the cache, in the alias of a link or as a directory of leases.
std::vector<NetworkLeftover> all_leftovers(const Node& node, const cni::RuntimeOptions& options);

}  // namespace tool::doctor

#pragma once

#include <string>

#include "cnitool/output.h"

/// The blocks that nodes have of the pools of cluster-pool.
namespace tool {

/// Prints which node has which block, and how full those of this node are; of one network or all.
/// \throws cni::Error where no file names the network.
void print_blocks(const std::string& network, const Output& output);

/// Has patchbay-agent give the blocks of a node back, which must not come back with its pods.
/// \param is_forced also where its Node object exists, or it has this node's name.
/// \throws cni::Error that the agent answers; netlink::Error where it does not run.
void release_blocks(const std::string& node, bool is_forced, const Output& output);

}  // namespace tool

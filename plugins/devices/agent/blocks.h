#pragma once

#include <string>

#include "plugins/cluster-pool/agent/block_agent.h"
#include "plugins/devices/agent/daemon.h"
#include "plugins/names/blocks.h"

/// What the process does for the plugin cluster-pool, beside devices or alone.
namespace devices {

struct BlockOptions {
  std::string config = names::kBlocksConfig;
  block_agent::Paths paths = {};
  std::string metrics = {};  ///< file; "": none
};

/// Serves blocks; empty: their config does not exist. options outlive it. \throws cni::Error.
StartBeside blocks_of(const BlockOptions& options);

/// Prints what the agent that runs says of blocks. Returns the exit status: 0 also while the engine
/// is away, because pods start then, and a probe is not to end the agent. \throws cni::Error,
/// netlink::Error without an agent.
int print_block_status(const std::string& socket);

/// What to print of the config of blocks: the first that is true.
struct Described {
  bool schema, keys, validate;
};
/// Returns the exit status.
int describe_blocks(const Described& what);

}  // namespace devices

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cnitool/output.h"
#include "cnitool/pool.h"
#include "plugins/state/blocks.h"

namespace tool {

/// A block of this node, and its leases.
struct BlockUse {
  blocks::Block block;
  std::uint64_t used = 0;  ///< addresses with a lease
  std::uint64_t size = 0;  ///< addresses that may be given out; 0: of another pool than now
  std::vector<Reservation> leases = {};
};

/// What names::kBlocksDir has of a network with cluster-pool.
struct BlockPool {
  std::string network;
  bool has_file = false;     ///< of the agent
  std::string failure = {};  ///< why a file is unreadable; empty: all are readable
  std::optional<blocks::Held> held = {};
  std::optional<blocks::Nodes> seen = {};
  std::optional<blocks::Want> want = {};
  std::vector<BlockUse> blocks = {};
  std::vector<Reservation> outside = {};  ///< leases in the pool's ranges, in none of the blocks

  /// As the agent or else the plugin says it; nullptr: unknown.
  const blocks::Pool* pool() const;
  /// The blocks of a range set: each is exhausted by itself.
  struct Count {
    std::vector<std::string> subnets = {};
    std::uint64_t claimed = 0;  ///< have a node, as far as the agent saw it
    std::uint64_t own = 0;      ///< have this node
    std::uint64_t total = 0;    ///< have an address to give out
  };
  std::vector<Count> counts() const;  ///< by set
};

/// The sum of all sets.
BlockPool::Count sum_of(const std::vector<BlockPool::Count>& counts);
/// "10.5.0.0/24: 3/16 blocks", without the subnets where there is one set.
std::vector<std::string> texts_of(const std::vector<BlockPool::Count>& counts);

/// Of all networks that are named there. \throws netlink::Error where the folder cannot be read.
std::vector<BlockPool> block_pools();

}  // namespace tool

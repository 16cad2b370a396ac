#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plugins/leases/cursor.h"
#include "plugins/state/blocks.h"

namespace cluster_pool {

/// This node's share of a set of the pool.
struct SetShare {
  leases::RangeSet addresses = {};  ///< of the held blocks, without excluded ones; may be empty
  std::uint64_t blocks = 0;         ///< held ones
  bool is_whole = false;            ///< there is no block of the set that the node lacks
};

/// The share of each set of the pool. Empty held: unknown, hence none.
std::vector<SetShare> shares_of(const blocks::Pool& pool, const std::optional<blocks::Held>& held);

/// The address is in the share of one of the sets.
bool has(const std::vector<SetShare>& shares, const netlink::Ip& ip);

/// Whether 3/4 of its addresses are used and another block can be asked for.
bool is_nearly_full(const SetShare& share, std::uint64_t used);

}  // namespace cluster_pool

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/cluster-pool/agent/view.h"
#include "plugins/state/blocks.h"

/// Which block to claim. Pure.
namespace block_agent {

/// A free block of the set: one after a block of this node, so that its blocks lie together, else
/// the first one from a place that the node's name chooses, so that nodes that start together
/// rarely want the same. Empty: all blocks are taken.
std::optional<netlink::Cidr> free_block(const blocks::Pool::Set& set, const View& view,
                                        const blocks::Held& held);

/// The block number `index` of the range, which may have no address to give out.
netlink::Cidr block_at(const blocks::Range& range, std::uint64_t index);

/// "n1 has 3, n2 has 13", of the blocks in the set.
std::string holders_of(const blocks::Pool::Set& set, const View::Blocks& taken);

}  // namespace block_agent

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/cluster-pool/agent/view.h"
#include "plugins/state/blocks.h"

/// Which block to claim. Pure.
namespace block_agent {

/// How many blocks of a set are wanted.
struct Wish {
  const blocks::Pool::Set& set;
  std::size_t count;
};

/// Free blocks of the set: those after a block of this node, so that its blocks lie together, else
/// the first ones from a place that the node's name chooses, so that nodes that start together
/// rarely want the same. Fewer than are wanted: all others are taken.
/// \param but these, which are about to be claimed
std::vector<netlink::Cidr> free_blocks(const Wish& wish, const View& view, const blocks::Held& held,
                                       const std::vector<netlink::Cidr>& but = {});

/// The block number `index` of the range, which may have no address to give out.
netlink::Cidr block_at(const blocks::Range& range, std::uint64_t index);

/// "n1 has 3, n2 has 13", of the blocks in the set.
std::string holders_of(const blocks::Pool::Set& set, const std::string& network, const View& view);

}  // namespace block_agent

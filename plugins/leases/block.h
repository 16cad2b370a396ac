#pragma once

#include <span>
#include <vector>

#include "plugins/leases/store.h"

namespace leases {

/// The leases of a block, among addresses as Store::used() gives them, which are sorted.
std::span<const Ip> in_block(const std::vector<Ip>& used, const Cidr& block);

/// Whether the block has no lease that lives: stale ones are reclaimed, and what an operator wrote
/// counts as one. Needs the store's lock, as long as the answer is to hold: ADD allocates under it.
bool is_free_of_leases(const Store& store, const Cidr& block);

}  // namespace leases

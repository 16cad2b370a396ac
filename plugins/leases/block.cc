#include "plugins/leases/block.h"

#include <algorithm>

#include "plugins/leases/stale.h"

namespace leases {

std::span<const Ip> in_block(const std::vector<Ip>& used, const Cidr& block) {
  const auto begin = std::lower_bound(used.begin(), used.end(), block.ip);
  const auto end = std::upper_bound(begin, used.end(), block.ip.broadcast(block.prefix));
  return {begin, end};
}

bool is_free_of_leases(const Store& store, const Cidr& block) {
  const auto used = store.used();
  const auto ours = in_block(used, block);
  return ours.empty() || reclaim(store, {ours.begin(), ours.end()}).living.empty();
}

}  // namespace leases

#include "plugins/cluster-pool/share.h"

#include <algorithm>

namespace cluster_pool {

namespace {

void add(SetShare& share, const blocks::Range& range, const netlink::Cidr& block) {
  const auto runs = range.runs_in(block);
  share.addresses.ranges.insert(share.addresses.ranges.end(), runs.begin(), runs.end());
  ++share.blocks;
}

std::uint64_t blocks_in(const blocks::Pool::Set& set) {
  std::uint64_t sum = 0;
  for (const blocks::Range& range : set) {
    const std::uint64_t one = range.usable_blocks();
    sum = one > UINT64_MAX - sum ? UINT64_MAX : sum + one;
  }
  return sum;
}

}  // namespace

std::vector<SetShare> shares_of(const blocks::Pool& pool, const std::optional<blocks::Held>& held) {
  std::vector<SetShare> out(pool.sets.size());
  // Leases of another folder, as before `dataDir` was changed, are not seen in this one.
  if (!held || held->pool.data_dir != pool.data_dir) return out;
  for (const blocks::Block& block : held->blocks) {
    if (block.state != blocks::State::kHeld) continue;
    // Of another pool, as before the config was changed: not to be found, or found and as good.
    if (const auto set = pool.set_of(block.cidr))
      add(out[*set], *pool.find(block.cidr), block.cidr);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].is_whole = out[i].blocks >= blocks_in(pool.sets[i]);
  }
  return out;
}

bool has(const std::vector<SetShare>& shares, const netlink::Ip& ip) {
  return std::ranges::any_of(shares,
                             [&](const SetShare& share) { return share.addresses.gives(ip); });
}

bool is_nearly_full(const SetShare& share, std::uint64_t used) {
  const std::uint64_t size = share.addresses.size();
  return !share.is_whole && used >= size - size / 4;
}

}  // namespace cluster_pool

#include "cnitool/block_pools.h"

#include <algorithm>

#include "cnitool/output.h"
#include "libcni/common/error.h"

namespace tool {

namespace {

// Reads a file; the reason where that fails is kept, and the others are read yet.
template <class Fn>
auto read(BlockPool& out, Fn&& fn) -> decltype(fn()) {
  try {
    return fn();
  } catch (const cni::Error& e) {
    out.failure = text_of(e);
  }
  return std::nullopt;
}

// Blocks of another size, and of a range that the pool had before, are not the set's.
std::uint64_t count_in(const blocks::Pool::Set& set, const std::vector<netlink::Cidr>& blocks) {
  return static_cast<std::uint64_t>(std::ranges::count_if(blocks, [&](const auto& block) {
    return std::ranges::any_of(
        set, [&](const blocks::Range& range) { return range.size_of(block) != 0; });
  }));
}

void add_leases(BlockPool& out) {
  if (out.held) {
    for (const blocks::Block& block : out.held->blocks) {
      const blocks::Range* const range = out.held->pool.find(block.cidr);
      out.blocks.push_back({.block = block, .size = range ? range->size_of(block.cidr) : 0});
    }
  }
  const blocks::Pool* const pool = out.pool();
  if (pool == nullptr || pool->data_dir.empty()) return;
  for (Reservation& one : reservations_in(cat(pool->data_dir, "/", out.network))) {
    const auto has = [&](const BlockUse& use) { return use.block.cidr.contains(one.ip); };
    const auto use = std::ranges::find_if(out.blocks, has);
    if (use != out.blocks.end()) {
      ++use->used;
      use->leases.push_back(std::move(one));
    } else if (pool->find(one.ip) != nullptr) {
      out.outside.push_back(std::move(one));
    }
  }
}

}  // namespace

const blocks::Pool* BlockPool::pool() const {
  if (held) return &held->pool;
  return want ? &want->pool : nullptr;
}

std::vector<BlockPool::Count> BlockPool::counts() const {
  std::vector<Count> out;
  for (const auto& set : pool() != nullptr ? pool()->sets : std::vector<blocks::Pool::Set>()) {
    Count one;
    for (const blocks::Range& range : set) {
      const std::uint64_t more = range.usable_blocks();
      one.total = more > UINT64_MAX - one.total ? UINT64_MAX : one.total + more;
      one.subnets.push_back(range.subnet.str());
    }
    for (const auto& node : seen ? seen->nodes : std::vector<blocks::Nodes::Node>()) {
      one.claimed += count_in(set, node.blocks);
    }
    std::vector<netlink::Cidr> mine;
    for (const BlockUse& use : blocks) {
      if (use.block.state != blocks::State::kLost) mine.push_back(use.block.cidr);
    }
    one.own = count_in(set, mine);
    one.claimed = std::max(one.claimed, one.own);  // the agent writes its own at once
    out.push_back(std::move(one));
  }
  return out;
}

BlockPool::Count sum_of(const std::vector<BlockPool::Count>& counts) {
  BlockPool::Count out;
  for (const BlockPool::Count& one : counts) {
    out.claimed += one.claimed;
    out.own += one.own;
    out.total = one.total > UINT64_MAX - out.total ? UINT64_MAX : out.total + one.total;
  }
  return out;
}

std::vector<std::string> texts_of(const std::vector<BlockPool::Count>& counts) {
  constexpr std::uint64_t kCountable = 0xffffffff;
  std::vector<std::string> out;
  for (const BlockPool::Count& one : counts) {
    out.push_back(cat(counts.size() == 1 ? "" : cat(joined(one.subnets), ": "), one.claimed, "/",
                      one.total <= kCountable ? cat(one.total) : "more than 2^32", " blocks"));
  }
  return out;
}

std::vector<BlockPool> block_pools() {
  std::vector<BlockPool> out;
  const auto folder = blocks::Folder::find();
  if (!folder) return out;
  for (const std::string& network : folder->networks()) {
    BlockPool one{.network = network, .has_file = folder->has_held(network)};
    one.held = read(one, [&] { return folder->held(network); });
    one.seen = read(one, [&] { return folder->nodes(network); });
    one.want = read(one, [&] { return folder->want(network); });
    if (one.has_file && !one.held && one.failure.empty()) {
      const std::string name = cat(network, ".json");
      one.failure = cat("'", folder->path(), "/", name, "' is ",
                        folder->dir().has_file(name) ? "torn" : "no file: remove it");
    }
    add_leases(one);
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace tool

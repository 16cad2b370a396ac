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

std::uint64_t BlockPool::claimed() const {
  std::uint64_t out = 0;
  for (const auto& node : seen ? seen->nodes : std::vector<blocks::Nodes::Node>()) {
    out += node.blocks.size();
  }
  return std::max<std::uint64_t>(out, blocks.size());
}

std::uint64_t BlockPool::total() const {
  std::uint64_t out = 0;
  for (const auto& set : pool() != nullptr ? pool()->sets : std::vector<blocks::Pool::Set>()) {
    for (const blocks::Range& range : set) {
      const std::uint64_t one = range.blocks();
      out = one > UINT64_MAX - out ? UINT64_MAX : out + one;
    }
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
      one.failure = cat("'", folder->path(), "/", network, ".json' is torn");
    }
    add_leases(one);
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace tool

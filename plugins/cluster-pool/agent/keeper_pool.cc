#include <algorithm>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "libcni/common/error.h"
#include "plugins/cluster-pool/agent/keeper.h"
#include "plugins/leases/block.h"

// Which pool the blocks are of.
namespace block_agent {

using blocks::Block;
using cni::cat;

namespace {

constexpr std::chrono::milliseconds kLeaveLock{2'000};
constexpr cni::BootTime kPinLasts = std::chrono::seconds(30);

// The pool of the network that shares addresses with this one, and has blocks of another size.
std::optional<Object> of_other_size(const std::vector<Object>& pools, const Object& pool) {
  const auto found = std::ranges::find_if(pools, [&](const Object& one) {
    const bool overlaps = one.cidr.contains(pool.cidr.ip) || pool.cidr.contains(one.cidr.ip);
    return one.network == pool.network && overlaps && one.block_size != pool.block_size;
  });
  return found == pools.end() ? std::nullopt : std::optional(*found);
}

// A person removes the pool of a subnet where its blocks are to have another size, and a node whose
// config has that by now makes it anew.
void check_pins(KeptNetwork& of, const Engine& engine, cni::BootTime now) {
  if (of.pinned.sets.empty() || now - of.pinned_at < kPinLasts) return;
  const auto all = engine.list(Kind::kPool);
  const auto is_there = [&](const blocks::Range& range) {
    return std::ranges::any_of(all, [&](const Object& one) {
      return one.network == of.held->network && one.cidr == range.subnet.network() &&
             one.block_size == range.block_size;
    });
  };
  const auto are_there = [&](const auto& set) { return std::ranges::all_of(set, is_there); };
  if (!std::ranges::all_of(of.pinned.sets, are_there)) of.pinned = {};
  of.pinned_at = now;
}

// A damaged file is written again from memory.
bool is_on_disk(const blocks::Folder& folder, const blocks::Held& held) try {
  return folder.held(held.network) == held;
} catch (const cni::Error&) {
  return false;
}

}  // namespace

// Others release the blocks of a name for which there is no Node object.
void Keeper::require_node() {
  if (!engine_.has_node || has_node_) return;
  has_node_ = engine_.has_node(self_.node);
  if (has_node_) return;
  throw cni::Error(cni::Code::kInvalidConfig,
                   cat(engine_.name, " has no Node '", self_.node,
                       "', and blocks of a node without one are released"),
                   "NODE_NAME, or node in the config of blocks, is the name of the Node object");
}

// The leases of the folder that ADD worked in until now, locked until the file names the other one:
// ADD gives out what has no lease in its own folder. Nothing: it is the same, or has no leases.
std::optional<leases::Store> Keeper::leave(const blocks::Held& held, const std::string& data_dir) {
  const std::string& before = held.pool.data_dir;
  std::error_code ignored;
  if (before == data_dir || std::filesystem::equivalent(before, data_dir, ignored)) {
    return std::nullopt;
  }
  auto out = leases::Store::open(before, held.network, leases::Host::current("patchbay-agent"));
  if (!out) return out;
  {
    const Outside outside(mutex_);
    out->lock(kLeaveLock);
  }
  for (const Block& one : held.blocks) {
    if (leases::is_free_of_leases(*out, one.cidr)) continue;
    throw cni::Error(cni::Code::kInvalidConfig,
                     cat("dataDir of network '", held.network, "' is '", data_dir,
                         "', and pods of this node have leases in '", before, "'"),
                     "stop these pods first, or configure the former dataDir");
  }
  return out;
}

// Blocks of an earlier pool stay until they are empty.
void Keeper::take_pool(Network& of, const blocks::Want& want, Time now) {
  check_pins(of, engine_, now);
  std::vector<blocks::Range> fresh;
  for (const auto& set : want.pool.sets) {
    for (const blocks::Range& range : set) {
      const auto pinned = of.pinned.find(range.start);
      if (pinned == nullptr || pinned->subnet != range.subnet ||
          pinned->block_size != range.block_size) {
        fresh.push_back(range);
      }
    }
  }
  const auto restores = restores_;
  if (!fresh.empty()) pin(*of.held, fresh);
  if (restores == restores_ && !fresh.empty()) of.pinned_at = now;
  if (restores == restores_) of.pinned = want.pool;
  if (of.held->pool == want.pool && is_on_disk(folder_, *of.held)) return;
  const auto former = leave(*of.held, want.pool.data_dir);
  of.held->pool = want.pool;
  put(of);
}

void Keeper::refuse_size(const Object& meant, const Object& other) const {
  if (other.block_size == 0) {
    throw cni::Error(cni::Code::kTryAgainLater,
                     cat("network '", meant.network, "': the size of blocks in ", meant.cidr.str(),
                         " is in an object that is not readable"),
                     "remove it as docs/cluster-pool.md says, or update this node");
  }
  const bool is_in_use = view_.overlapping(meant.network, other.cidr) != nullptr;
  throw cni::Error(
      cni::Code::kInvalidConfig,
      cat("network '", meant.network, "' has blocks of /", other.block_size, " in ",
          other.cidr.str(), ", set by node '", other.node, "'; blockSize here is /",
          meant.block_size),
      is_in_use ? "one size for all nodes: docs/cluster-pool.md says how to change it"
                : cat("no node has a block of it: if that size is a mistake, correct the config of "
                      "each node that has it, then remove the AddressPool '",
                      name_of(other), "', of etcd the key ", key_of(other)));
}

// The first node of a network sets the size of a subnet's blocks: blocks of two sizes overlap.
void Keeper::pin(const blocks::Held& held, const std::vector<blocks::Range>& ranges) {
  std::vector<Object> pools;
  for (const blocks::Range& range : ranges) {
    pools.push_back({.kind = Kind::kPool,
                     .network = held.network,
                     .cidr = range.subnet.network(),
                     .block_size = range.block_size,
                     .node = self_.node,
                     .machine = self_.machine,
                     .claim = new_claim()});
  }
  const auto refuse_others = [&](const std::vector<Object>& all) {
    for (const Object& pool : pools) {
      if (const auto one = of_other_size(all, pool)) refuse_size(pool, *one);
    }
  };
  // Before as well: a node with a wrong size would hold up others for as long as its object exists.
  refuse_others(engine_.list(Kind::kPool));
  const auto answers = create_all(pools);
  for (const Answer& one : answers) {
    if (one.error) std::rethrow_exception(one.error);
  }
  const auto all = engine_.list(Kind::kPool);
  try {
    for (std::size_t i = 0; i < pools.size(); ++i) {
      const auto& other = answers[i].other;
      if (other && other->block_size != pools[i].block_size) refuse_size(pools[i], *other);
    }
    refuse_others(all);
  } catch (const cni::Error&) {
    for (std::size_t i = 0; i < pools.size(); ++i) {
      if (!answers[i].other) engine_.remove(pools[i]);
    }
    throw;
  }
}

}  // namespace block_agent

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/daemon/log.h"
#include "plugins/cluster-pool/agent/choice.h"
#include "plugins/cluster-pool/agent/keeper.h"
#include "plugins/leases/block.h"

// What the plugin wants.
namespace block_agent {

using blocks::Block;
using blocks::State;
using cni::cat;
using cni::Level;
using netlink::Cidr;

namespace {

constexpr int kMaxTries = 64;  // of blocks that others were quicker for
constexpr std::chrono::milliseconds kLeaveLock{2'000};
constexpr cni::BootTime kCallAgain = std::chrono::minutes(5);  // while a shortage lasts

std::size_t held_of(const blocks::Held& held, std::size_t set) {
  return static_cast<std::size_t>(std::ranges::count_if(held.blocks, [&](const Block& one) {
    return one.state == State::kHeld && held.pool.set_of(one.cidr) == set;
  }));
}

// The pool of the network that shares addresses with this one, and has blocks of another size.
std::optional<Object> of_other_size(const std::vector<Object>& pools, const Object& pool) {
  const auto found = std::ranges::find_if(pools, [&](const Object& one) {
    const bool overlaps = one.cidr.contains(pool.cidr.ip) || pool.cidr.contains(one.cidr.ip);
    return one.network == pool.network && overlaps && one.block_size != pool.block_size;
  });
  return found == pools.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

// True: nothing of it is left to do, be it that an address is another node's.
bool Keeper::serve(Network& of, const blocks::Want& want, Time now) {
  require_node();
  take_pool(of, want);
  bool is_done = true;
  std::string others;
  for (const netlink::Ip& ip : want.fixed) is_done = claim_fixed(of, ip, others) && is_done;
  std::vector<std::size_t> wanted(of.held->pool.sets.size(), 1);
  for (const blocks::Want::Short& one : want.sets) {
    if (one.set < wanted.size()) wanted[one.set] = std::max<std::size_t>(1, one.blocks + 1);
  }
  for (std::size_t set = 0; set < wanted.size(); ++set) {
    while (held_of(*of.held, set) < wanted[set]) {
      if (!claim_next(of, set, now)) {
        is_done = false;
        break;
      }
    }
  }
  if (!is_done) return false;
  // A changed note wakes the plugin, which reads in NETWORK.nodes who has a fixed address.
  if (!others.empty()) of.write_at = Time(0);
  write_nodes(of.held->network, of, now);
  note(of, others);
  end_shortage(of);
  return true;
}

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
std::optional<leases::Store> Keeper::leave(const blocks::Held& held,
                                           const std::string& data_dir) const {
  const std::string& before = held.pool.data_dir;
  std::error_code ignored;
  if (before == data_dir || std::filesystem::equivalent(before, data_dir, ignored)) {
    return std::nullopt;
  }
  auto out = leases::Store::open(before, held.network, leases::Host::current("patchbay-agent"));
  if (!out) return out;
  out->lock(kLeaveLock);
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
void Keeper::take_pool(Network& of, const blocks::Want& want) {
  for (const auto& set : want.pool.sets) {
    for (const blocks::Range& range : set) {
      const auto pinned = of.pinned.find(range.start);
      if (pinned == nullptr || pinned->subnet != range.subnet ||
          pinned->block_size != range.block_size) {
        pin(*of.held, range);
      }
    }
  }
  of.pinned = want.pool;
  if (of.held->pool == want.pool && folder_.has_held(of.held->network)) return;
  const auto former = leave(*of.held, want.pool.data_dir);
  of.held->pool = want.pool;
  put(of);
}

// The first node of a network sets the size of a subnet's blocks: blocks of two sizes overlap.
void Keeper::pin(const blocks::Held& held, const blocks::Range& range) {
  Object pool{.kind = Kind::kPool,
              .network = held.network,
              .cidr = range.subnet.network(),
              .block_size = range.block_size,
              .node = self_.node,
              .machine = self_.machine,
              .claim = new_claim()};
  const auto refuse = [&](const Object& other) {
    if (other.block_size == 0) {
      throw cni::Error(cni::Code::kTryAgainLater,
                       cat("network '", held.network, "': the size of blocks in ", pool.cidr.str(),
                           " is in an object that is not readable"),
                       "remove it as docs/cluster-pool.md says, or update this node");
    }
    throw cni::Error(cni::Code::kInvalidConfig,
                     cat("network '", held.network, "' has blocks of /", other.block_size, " in ",
                         other.cidr.str(), ", set by node '", other.node, "'; blockSize here is /",
                         range.block_size),
                     "one size for all nodes: docs/cluster-pool.md says how to change it");
  };
  // Before as well: a node with a wrong size would hold up others for as long as its object exists.
  if (const auto one = of_other_size(engine_.list(Kind::kPool), pool)) refuse(*one);
  const auto other = engine_.create(pool);
  if (other && other->block_size != range.block_size) refuse(*other);
  if (const auto one = of_other_size(engine_.list(Kind::kPool), pool)) {
    if (!other) engine_.remove(pool);
    refuse(*one);
  }
}

// False: another node has it, or this one since a call whose answer was lost: adopt() removes that.
bool Keeper::claim(Network& of, const Cidr& cidr) {
  Block block{.cidr = cidr, .claim = new_claim()};
  Object object = object_of(*of.held, block);
  const auto other = engine_.create(object);
  if (other && !other->is_claim_of(object)) {
    ++totals_.conflicts;
    view_.put(*other);
    return false;
  }
  view_.put(other ? *other : object);  // made twice, because the first answer was lost
  of.held->blocks.push_back(std::move(block));
  put(of);
  ++totals_.claims;
  cni::log(Level::kInfo, "claimed a block", {{"network", of.held->network}, {"block", cidr.str()}});
  return true;
}

bool Keeper::claim_next(Network& of, std::size_t set, Time now) {
  const blocks::Pool::Set& ranges = of.held->pool.sets[set];
  for (int tries = 0; tries < kMaxTries; ++tries) {
    const auto free = free_block(ranges, view_, *of.held);
    if (!free) {
      const std::string holders = holders_of(ranges, view_.blocks(of.held->network));
      note(of, cat("all blocks of ", ranges.front().subnet.network().str(),
                   ranges.size() > 1 ? " and the set's other ranges" : "", " are taken",
                   holders.empty() ? "" : cat(": ", holders)));
      if (is_full(of, set)) call_for_blocks(of, now);
      return false;
    }
    if (claim(of, *free)) return true;
  }
  throw cni::Error(cni::Code::kTryAgainLater,
                   cat("claim a block of network '", of.held->network,
                       "': other nodes were quicker ", kMaxTries, " times"));
}

// True also if it is another's, which the plugin reports by NETWORK.nodes.
bool Keeper::claim_fixed(Network& of, const netlink::Ip& ip, std::string& others) {
  const auto* const range = of.held->pool.find(ip);
  if (range == nullptr) return true;
  const Cidr cidr = range->block_of(ip);
  const auto is_it = [&](const Block& one) { return one.cidr == cidr; };
  const auto own = std::ranges::find_if(of.held->blocks, is_it);
  if (own != of.held->blocks.end()) return own->state != State::kReturning;
  if (view_.overlapping(of.held->network, cidr) == nullptr && claim(of, cidr)) return true;
  const Object* const other = view_.overlapping(of.held->network, cidr);
  if (other == nullptr) return false;
  others += cat(others.empty() ? "" : "; ", ip.str(), " is in block ", other->cidr.str(),
                " of node '", other->node, "'");
  return true;
}

bool Keeper::is_full(const Network& of, std::size_t set) const {
  const blocks::Held& held = *of.held;
  const auto store = store_of(held);
  const auto used = store ? store->used() : std::vector<netlink::Ip>{};
  std::uint64_t free = 0;
  for (const Block& one : held.blocks) {
    if (one.state != State::kHeld || held.pool.set_of(one.cidr) != set) continue;
    const std::uint64_t size = held.pool.find(one.cidr)->size_of(one.cidr);
    free += size - std::min<std::uint64_t>(size, leases::in_block(used, one.cidr).size());
  }
  return free == 0;
}

// Others see the object and return blocks that are empty.
void Keeper::call_for_blocks(Network& of, Time now) {
  if (!of.shortage.empty() && now - of.shortage_at < kCallAgain) return;
  end_shortage(of);
  Object call{.kind = Kind::kShortage,
              .network = of.held->network,
              .node = self_.node,
              .machine = self_.machine,
              .claim = new_claim()};
  const auto other = engine_.create(call);
  of.shortage = other ? other->claim : call.claim;  // of an earlier process
  of.shortage_at = now;
  cni::log(Level::kWarning, "ask other nodes for empty blocks",
           {{"network", of.held->network}, {"error", of.held->note}});
}

// Also that of an earlier process.
void Keeper::end_shortage(Network& of) {
  const auto& calls = view_.shortages(of.held->network);
  const auto own = calls.find(self_.node);
  const bool is_own = own != calls.end() && own->second.machine == self_.machine;
  if (of.shortage.empty() && is_own) of.shortage = own->second.claim;
  if (of.shortage.empty()) return;
  const Object call{.kind = Kind::kShortage,
                    .network = of.held->network,
                    .node = self_.node,
                    .machine = self_.machine,
                    .claim = of.shortage};
  engine_.remove(call);
  view_.erase_claim(call);
  of.shortage.clear();
}

}  // namespace block_agent

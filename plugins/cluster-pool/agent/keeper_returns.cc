#include <algorithm>
#include <ctime>
#include <map>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/daemon/log.h"
#include "plugins/cluster-pool/agent/keeper.h"
#include "plugins/leases/block.h"
#include "plugins/state/waiters.h"

// What is not needed any more, and what other nodes have.
namespace block_agent {

using blocks::Block;
using blocks::State;
using cni::Level;

namespace {

constexpr cni::BootTime kLongestLook = std::chrono::minutes(2);  // between two looks at leases
constexpr cni::BootTime kCallLasts = std::chrono::minutes(15);   // of a node that died of it
constexpr cni::BootTime kWritePause = std::chrono::seconds(1);
constexpr std::chrono::milliseconds kReturnLock{2'000};

}  // namespace

bool Keeper::are_others_short(Network& of, Time now) {
  const auto& calls = view_.shortages(of.held->network);
  std::erase_if(of.others_short, [&](const auto& known) {
    return std::ranges::none_of(calls,
                                [&](const auto& call) { return call.second.claim == known.first; });
  });
  bool out = false;
  for (const auto& [node, call] : calls) {
    if (node == self_.node) continue;
    const Time since = of.others_short.try_emplace(call.claim, now).first->second;
    out = out || now - since < kCallLasts;
  }
  return out;
}

// The next time to look at the leases.
Keeper::Time Keeper::return_idle(Network& of, Time now) {
  blocks::Held& held = *of.held;
  const bool is_called_for = are_others_short(of, now);
  if (held.blocks.empty() || (held.blocks.size() == 1 && !is_called_for &&
                              held.pool.find(held.blocks[0].cidr) != nullptr)) {
    of.empty_since.clear();
    return cni::kNever;
  }
  if (!error_.empty()) return cni::kNever;  // ADD would lose a block that nobody can claim
  if (now < of.look_at && !is_called_for) return of.look_at;
  const auto store = store_of(held);
  if (!store) return look_later(of, now);
  of.is_blind = false;
  const auto used = store->used();
  std::map<netlink::Cidr, Time> empty;
  std::vector<netlink::Cidr> idle;
  for (const Block& one : held.blocks) {
    if (one.state != State::kHeld || !leases::in_block(used, one.cidr).empty()) continue;
    const auto before = of.empty_since.find(one.cidr);
    const Time since = before == of.empty_since.end() ? now : before->second;
    empty[one.cidr] = since;
    if (is_called_for || now - since >= times_.idle) idle.push_back(one.cidr);
  }
  of.empty_since = std::move(empty);
  for (const netlink::Cidr& cidr : idle) {
    const auto block = std::ranges::find(held.blocks, cidr, &Block::cidr);
    if (may_return(of, *block, used, is_called_for)) give_back(of, cidr);
  }
  of.look_at = now + std::clamp<Time>(times_.idle / 5, std::chrono::seconds(1), kLongestLook);
  return of.look_at;
}

// Without the folder of leases no block is known to be empty.
Keeper::Time Keeper::look_later(Network& of, Time now) const {
  if (!std::exchange(of.is_blind, true)) {
    cni::log(Level::kWarning, "return no block, because the folder of leases is not there",
             {{"network", of.held->network}, {"error", of.held->pool.data_dir}});
  }
  of.look_at = now + kLongestLook;
  return of.look_at;
}

// One block of each set stays, and half of the addresses of the others have to be free: else the
// next pods would wait for a claim. A node that has none left comes before both, but not before
// ADDs that wait here: each of two nodes would return to the other what it has just claimed.
bool Keeper::may_return(const Network& of, const Block& block, const std::vector<netlink::Ip>& used,
                        bool is_called_for) const {
  const blocks::Held& held = *of.held;
  const auto set = held.pool.set_of(block.cidr);
  if (!set) return true;
  if (is_called_for) return blocks::count_waiting(folder_.dir(), held.network, *set) == 0;
  std::uint64_t size = 0, leased = 0;
  for (const Block& one : held.blocks) {
    if (one.state != State::kHeld || one.cidr == block.cidr || held.pool.set_of(one.cidr) != set) {
      continue;
    }
    size += held.pool.find(one.cidr)->size_of(one.cidr);
    leased += leases::in_block(used, one.cidr).size();
  }
  return size != 0 && leased <= size / 2;
}

// The lock keeps ADD from allocating in the block between the look and the mark. An engine that
// does not answer is found before the mark, which would take the block from ADD for as long.
void Keeper::give_back(Network& of, const netlink::Cidr& cidr) {
  Object mine = object_of(*of.held, *std::ranges::find(of.held->blocks, cidr, &Block::cidr));
  const auto there = engine_.create(mine);
  const auto block = std::ranges::find(of.held->blocks, cidr, &Block::cidr);
  if (!there) {
    view_.put(mine);
    return found_lost(of, *block);
  }
  if (!there->is_claim_of(mine)) return view_.put(*there);  // check() is next
  {
    auto store = store_of(*of.held);
    if (!store) return;
    {
      const Outside outside(mutex_);
      store->lock(kReturnLock);
    }
    if (!leases::is_free_of_leases(*store, cidr)) return;
    block->state = State::kReturning;
    put(of);
  }
  finish_return(of, *block);
  of.held->blocks.erase(std::ranges::find(of.held->blocks, cidr, &Block::cidr));
  put(of);
  of.empty_since.erase(cidr);
  ++totals_.returns;
  cni::log(Level::kInfo, "returned a block",
           {{"network", of.held->network}, {"block", cidr.str()}});
}

// Who has what, for errors of the plugin and for cnitool. The next time to write.
Keeper::Time Keeper::write_nodes(const std::string& network, Network& of, Time now) {
  const std::uint64_t changes = view_.changes(network);
  if (of.written == changes) return cni::kNever;
  if (now < of.write_at) return of.write_at;
  std::map<std::string, std::vector<netlink::Cidr>> by_node;
  view_.each_taken(network,
                   [&](const Object& one) { by_node[holder_of(one)].push_back(one.cidr); });
  blocks::Nodes out{.at = static_cast<std::int64_t>(std::time(nullptr))};
  for (auto& [node, all] : by_node) out.nodes.push_back({node, std::move(all)});
  folder_.put(network, out);
  of.written = changes;
  of.write_at = now + kWritePause;
  return cni::kNever;
}

}  // namespace block_agent

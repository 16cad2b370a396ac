#include "plugins/cluster-pool/allocation.h"

#include <algorithm>
#include <ctime>

#include "libcni/common/error.h"
#include "plugins/cluster-pool/ask.h"
#include "plugins/cluster-pool/waiting.h"
#include "plugins/leases/allocate.h"
#include "plugins/leases/verbs.h"
#include "plugins/state/waiters.h"

namespace cluster_pool {

using cni::cat;
using cni::Code;
using cni::Error;
using netlink::Ip;

Allocation::Allocation(const Conf& conf, leases::Store& store, const leases::Owner& owner)
    : conf_(conf), store_(store), owner_(owner), folder_(blocks::Folder::find()) {}

std::vector<cni::Address> Allocation::run(cni::Undo& undo) {
  auto out = attempt(Reclaim::kYes, undo);
  store_.unlock();
  if (!out) return wait(undo);
  try {
    ask_early(out->front().cidr.ip);
  } catch (const std::exception& e) {  // costs the next ADD a wait, not this one its address
    cni::note(cat("cluster-pool: ask for a block: ", e.what()));
  }
  return *std::move(out);
}

void Allocation::look() {
  held_ = folder_ ? folder_->held(store_.network()) : std::nullopt;
  shares_ = shares_of(conf_.pool, held_);
}

bool Allocation::is_requested_in(std::size_t set) const {
  const auto& range_set = conf_.leases.sets[set];
  return std::ranges::any_of(conf_.leases.requested,
                             [&](const Ip& ip) { return range_set.find(ip) != nullptr; });
}

bool Allocation::can_allocate() {
  lacking_.clear();
  full_.clear();
  std::ranges::copy_if(conf_.leases.requested, std::back_inserter(lacking_),
                       [&](const Ip& ip) { return !has(shares_, ip); });
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    if (shares_[i].addresses.ranges.empty() && !is_requested_in(i)) full_.push_back(i);
  }
  return lacking_.empty() && full_.empty();
}

void Allocation::find_full() {
  const auto used = store_.used();
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    const auto count = leases::used_of(shares_[i].addresses, used).size();
    if (!is_requested_in(i) && count >= shares_[i].addresses.size()) full_.push_back(i);
  }
}

std::optional<std::vector<cni::Address>> Allocation::attempt(Reclaim reclaim, cni::Undo& undo) {
  store_.lock();
  look();
  if (!can_allocate()) return std::nullopt;
  if (reclaim == Reclaim::kNo) find_full();
  if (!full_.empty()) return std::nullopt;
  leases::Conf now = conf_.leases;
  for (std::size_t i = 0; i < shares_.size(); ++i) now.sets[i] = shares_[i].addresses;
  try {
    return leases::add(store_, now, owner_, undo);
  } catch (const Error& e) {
    if (!leases::is_exhaustion(e)) throw;
  }
  find_full();
  // Of the others all free addresses are those of pods of other networks on the same link.
  for (std::size_t i = 0; full_.empty() && i < shares_.size(); ++i) full_.push_back(i);
  return std::nullopt;
}

std::vector<cni::Address> Allocation::wait(cni::Undo& undo) {
  if (!folder_) folder_ = blocks::Folder::create();
  Waiting waiting(*folder_, store_, conf_.wait);
  blocks::Waiter seen_by_agent(folder_->dir(), store_.network());
  const auto again = [&](Reclaim reclaim) {
    auto out = attempt(reclaim, undo);
    store_.unlock();
    return out;
  };
  do {
    seen_by_agent.wait_for(full_);
    ask();
    refuse_if_elsewhere();
    // Once more: the first look was before the watch.
    if (auto out = again(Reclaim::kNo)) return *std::move(out);
  } while (waiting.next());
  if (auto out = again(Reclaim::kYes)) return *std::move(out);
  ask();
  throw refusal();
}

blocks::Want Allocation::want() const {
  return {.network = store_.network(),
          .pool = conf_.pool,
          .fixed = lacking_,
          .since = std::time(nullptr)};
}

void Allocation::ask() const {
  blocks::Want out = want();
  for (const std::size_t set : full_) {
    if (!shares_[set].is_whole) out.sets.push_back({set, shares_[set].blocks});
  }
  const bool is_of_pool = held_ && held_->pool == conf_.pool;
  if (out.sets.empty() && out.fixed.empty() && is_of_pool) return;  // the node has all blocks
  folder_->ask(out);
}

void Allocation::ask_early(const Ip& allocated) const {
  const bool is_of_pool = held_ && held_->pool == conf_.pool;
  if (is_of_pool && !is_time_to_count(shares_, allocated)) return;
  blocks::Want out = want();
  add_nearly_full(out, shares_, store_);
  if (out.sets.empty() && is_of_pool) return;
  folder_->ask(out);
}

std::string Allocation::holder_of(const Ip& ip) const {
  if (held_) {
    for (const blocks::Block& block : held_->blocks) {
      if (block.state == blocks::State::kLost && block.cidr.contains(ip)) return block.holder;
    }
  }
  const auto nodes = folder_->nodes(store_.network());
  const std::string out = nodes ? nodes->node_with(ip) : "";
  return held_ && out != held_->node ? out : "";  // without a file it may be this node's
}

void Allocation::refuse_if_elsewhere() const {
  for (const Ip& ip : lacking_) {
    const std::string node = holder_of(ip);
    if (node.empty()) continue;
    throw Error(
        Code::kTryAgainLater,
        cat("requested IP address ", ip.str(), " is not available: ", blocks::holder_text(node),
            " has its block ", conf_.pool.find(ip)->block_of(ip).str()),
        "cnitool blocks says which node has what; start the pod on that node, or stop its "
        "pods in the block, which it then gives back");
  }
}

std::string Allocation::what_is_full(std::size_t set) const {
  constexpr std::size_t kMaxNamed = 8;
  const SetShare& share = shares_[set];
  const std::string what = cat("failed to allocate for range ", set, ": ");
  if (share.blocks == 0) {
    return cat(what, "this node has no block of ", conf_.leases.sets[set].str());
  }
  return cat(what, "no IP addresses available in the ", share.blocks,
             share.blocks == 1 ? " block" : " blocks", " of this node",
             share.addresses.ranges.size() > kMaxNamed ? "" : cat(": ", share.addresses.str()));
}

Error Allocation::refusal() const {
  const bool is_whole = lacking_.empty() && shares_[full_.front()].is_whole;
  if (is_whole) {
    return {Code::kTryAgainLater, what_is_full(full_.front()), "the pool has no other block"};
  }
  std::string why;
  if (lacking_.empty()) {
    why = what_is_full(full_.front());
  } else {
    const Ip& ip = lacking_.front();
    why = cat("requested IP address ", ip.str(),
              " is not available: this node does not have its block ",
              conf_.pool.find(ip)->block_of(ip).str());
  }
  const std::string after = conf_.wait.count() == 0 ? "" : cat(" in ", conf_.wait.count(), " s");
  return {Code::kTryAgainLater, why, cat(agent_says(*folder_, store_.network(), held_), after)};
}

}  // namespace cluster_pool

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/daemon/log.h"
#include "plugins/cluster-pool/agent/choice.h"
#include "plugins/cluster-pool/agent/keeper.h"
#include "plugins/leases/block.h"
#include "plugins/state/waiters.h"

// What the plugin wants.
namespace block_agent {

using blocks::Block;
using blocks::State;
using cni::cat;
using cni::Level;
using netlink::Cidr;

namespace {

constexpr int kMaxTries = 64;             // of blocks that others were quicker for
constexpr std::size_t kMaxPlan = 64;      // blocks between two writes of the file
constexpr std::size_t kCallsAtOnce = 16;  // of create_all()
constexpr cni::BootTime kCallAgain = std::chrono::minutes(5);  // while a shortage lasts

std::size_t held_of(const blocks::Held& held, std::size_t set) {
  return static_cast<std::size_t>(std::ranges::count_if(held.blocks, [&](const Block& one) {
    return one.state == State::kHeld && held.pool.set_of(one.cidr) == set;
  }));
}

// Of addresses, as large as one has been: blocks at the ends of a range have fewer.
std::uint64_t size_of_block(const blocks::Range& range) {
  const unsigned bits = range.subnet.ip.bits() - range.block_size;
  return bits < 63 ? std::uint64_t{1} << bits : UINT64_MAX;
}

}  // namespace

/// The next claims of a network.
struct Keeper::Plan {
  std::vector<Cidr> blocks = {};
  std::string others = {};                ///< requested addresses that other nodes' blocks have
  std::optional<std::size_t> taken = {};  ///< a set of which each block has a node
  bool is_done = true;                    ///< false: a block of it is being returned
};

// ADD has ended, be it killed, and was not called again.
bool Keeper::is_over(Network& of, const blocks::Want& want, Time now) {
  if (blocks::are_waiting(folder_.dir(), want.network)) {
    of.unwaited.reset();
    of.unwaited_at = now;
    return false;
  }
  if (of.unwaited != want) {
    of.unwaited = want;
    of.unwaited_at = now;
  }
  return now - of.unwaited_at >= kWantLasts;
}

// True: nothing of it is left to do, be it that an address is another node's.
bool Keeper::serve(Network& of, const blocks::Want& want, Time now) {
  require_node();
  take_pool(of, want, now);
  const auto restores = restores_;
  for (int tries = 0; tries < kMaxTries; ++tries) {
    if (restores != restores_) return false;
    const Plan plan = plan_of(of, want);
    if (plan.blocks.empty()) return conclude(of, plan, now);
    if (claim_all(of, plan.blocks)) tries = 0;
  }
  throw cni::Error(cni::Code::kTryAgainLater,
                   cat("claim a block of network '", of.held->network,
                       "': other nodes were quicker ", kMaxTries, " times"));
}

bool Keeper::conclude(Network& of, const Plan& plan, Time now) {
  if (plan.taken) {
    const auto& ranges = of.held->pool.sets[*plan.taken];
    const std::string holders = holders_of(ranges, of.held->network, view_);
    note(of, cat("all blocks of ", ranges.front().subnet.network().str(),
                 ranges.size() > 1 ? " and the set's other ranges" : "", " are taken",
                 holders.empty() ? "" : cat(": ", holders)));
    if (free_in(of, *plan.taken) == 0) call_for_blocks(of, now);
    return false;
  }
  if (!plan.is_done) return false;
  // A changed note wakes the plugin, which reads in NETWORK.nodes who has a fixed address.
  if (!plan.others.empty()) of.write_at = Time(0);
  write_nodes(of.held->network, of, now);
  note(of, plan.others);
  end_shortage(of);
  return true;
}

// First the blocks of leases that are older than all blocks, as of host-local: another node must
// not have them.
Keeper::Plan Keeper::plan_of(const Network& of, const blocks::Want& want) const {
  const blocks::Held& held = *of.held;
  Plan out;
  if (const auto store = store_of(held)) {
    std::optional<Cidr> last;  // sorted: one block after another
    for (const netlink::Ip& ip : store->used()) {
      if (out.blocks.size() >= kMaxPlan) break;
      if (last && last->contains(ip)) continue;
      const auto* const range = held.pool.find(ip);
      if (range == nullptr) continue;
      last = range->block_of(ip);
      plan_fixed(of, ip, out);
    }
    out.others.clear();  // doctor reports these leases
    out.is_done = true;
  }
  if (!out.blocks.empty()) return out;
  for (const netlink::Ip& ip : want.fixed) plan_fixed(of, ip, out);
  for (std::size_t set = 0; set < held.pool.sets.size(); ++set) {
    const std::size_t count = std::min(lacking_in(of, want, set), kMaxPlan);
    const auto found = free_blocks({held.pool.sets[set], count}, view_, held, out.blocks);
    if (found.size() < count && !out.taken) out.taken = set;
    out.blocks.insert(out.blocks.end(), found.begin(), found.end());
  }
  return out;
}

void Keeper::plan_fixed(const Network& of, const netlink::Ip& ip, Plan& plan) const {
  const auto* const range = of.held->pool.find(ip);
  if (range == nullptr) return;
  const Cidr cidr = range->block_of(ip);
  const auto own = std::ranges::find(of.held->blocks, cidr, &Block::cidr);
  if (own != of.held->blocks.end()) {
    plan.is_done = plan.is_done && own->state != State::kReturning;
    return;
  }
  const Object* const other = view_.overlapping(of.held->network, cidr);
  if (other == nullptr) {
    if (std::ranges::find(plan.blocks, cidr) == plan.blocks.end()) plan.blocks.push_back(cidr);
    return;
  }
  if (self_.made(*other)) {  // a stale claim: adopt() removes it soon
    plan.is_done = false;
    return;
  }
  plan.others += cat(plan.others.empty() ? "" : "; ", ip.str(), " is in block ", other->cidr.str(),
                     " of ", blocks::holder_text(holder_of(*other)));
}

// How many blocks of the set the node needs, beside those that it has: the next one, and as many
// addresses as ADDs wait for.
std::size_t Keeper::lacking_in(const Network& of, const blocks::Want& want, std::size_t set) const {
  const std::size_t has = held_of(*of.held, set);
  std::uint64_t least = 1;
  for (const blocks::Want::Short& one : want.sets) {
    if (one.set == set) least = std::max<std::uint64_t>(least, one.blocks + 1);
  }
  std::uint64_t out = least > has ? least - has : 0;
  const std::uint64_t free = free_in(of, set);  // before the others: a lease ends a wait
  const std::uint64_t waiting = blocks::count_waiting(folder_.dir(), want.network, set);
  if (waiting > free) {
    const std::uint64_t size = size_of_block(of.held->pool.sets[set].front());
    out = std::max(out, (waiting - free - 1) / size + 1);
  }
  return static_cast<std::size_t>(std::min<std::uint64_t>(out, kMaxPlan));
}

// All at once: an engine that is slow is waited for once. After an error no further call begins.
std::vector<Keeper::Answer> Keeper::create_all(std::vector<Object>& objects) {
  std::vector<Answer> out(objects.size());
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> has_failed = false;
  const auto run = [&] {
    for (std::size_t i = next++; i < objects.size(); i = next++) {
      try {
        if (has_failed) throw cni::Error(cni::Code::kTryAgainLater, "an earlier call failed");
        out[i].other = direct_.create(objects[i]);
      } catch (const std::exception&) {
        out[i].error = std::current_exception();
        has_failed = true;
      }
    }
  };
  const Outside outside(mutex_);
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < std::min(objects.size(), kCallsAtOnce); ++i) others.emplace_back(run);
  run();
  others.clear();
  return out;
}

// What was claimed is in the file before an error of another one is thrown. False: nothing.
bool Keeper::claim_all(Network& of, const std::vector<Cidr>& all) {
  std::vector<Object> objects;
  for (const Cidr& cidr : all) {
    objects.push_back(object_of(*of.held, {.cidr = cidr, .claim = of.own.fresh()}));
  }
  const auto restores = restores_;
  const std::uint64_t seen = seen_.revisions[Kind::kBlock];
  const auto answers = create_all(objects);
  const auto is_older = [&](const Object& one) { return one.version != 0 && one.version <= seen; };
  if (restores == restores_ && std::ranges::any_of(objects, is_older)) {  // before any list
    begin_settling(cni::EventLoop::now() + of.ahead);
    seen_.write(folder_);
  }
  if (restores != restores_) {  // they may be others', which claim them again; adopt() is next
    throw cni::Error(cni::Code::kTryAgainLater,
                     cat(engine_.name, " was restored while blocks were claimed"));
  }
  std::exception_ptr error;
  bool is_changed = false;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (answers[i].error) {
      if (!error) error = answers[i].error;
    } else {
      is_changed = take(of, objects[i], answers[i]) || is_changed;
    }
  }
  if (is_changed) put(of);
  if (error) std::rethrow_exception(error);
  return is_changed;
}

// False: another node has it, or this one since a call whose answer was lost: adopt() removes that.
bool Keeper::take(Network& of, const Object& object, const Answer& answer) {
  const auto& other = answer.other;
  if (other && !other->is_claim_of(object)) {
    ++totals_.conflicts;
    view_.put(*other);
    return false;
  }
  view_.put(other ? *other : object);  // made twice, because the first answer was lost
  of.held->blocks.push_back({.cidr = object.cidr, .claim = object.claim});
  ++totals_.claims;
  cni::log(Level::kInfo, "claimed a block",
           {{"network", object.network}, {"block", object.cidr.str()}});
  return true;
}

// Addresses without a lease.
std::uint64_t Keeper::free_in(const Network& of, std::size_t set) const {
  const blocks::Held& held = *of.held;
  const auto store = store_of(held);
  const auto used = store ? store->used() : std::vector<netlink::Ip>{};
  std::uint64_t free = 0;
  for (const Block& one : held.blocks) {
    if (one.state != State::kHeld || held.pool.set_of(one.cidr) != set) continue;
    const std::uint64_t size = held.pool.find(one.cidr)->size_of(one.cidr);
    free += size - std::min<std::uint64_t>(size, leases::in_block(used, one.cidr).size());
  }
  return free;
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

#include <algorithm>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/daemon/log.h"
#include "plugins/cluster-pool/agent/keeper.h"
#include "plugins/leases/block.h"

// Whose the blocks are that this node has or had.
namespace block_agent {

using blocks::Block;
using blocks::State;
using cni::cat;
using cni::Level;

namespace {

constexpr std::chrono::milliseconds kLeaseLock{2'000};

}  // namespace

// Each block against what the engine was seen to have. An error leaves the others for later.
void Keeper::check_blocks(Network& of) {
  blocks::Held& held = *of.held;
  for (std::size_t i = 0; i < held.blocks.size();) {
    if (check(of, held.blocks[i])) {
      ++i;
      continue;
    }
    held.blocks.erase(held.blocks.begin() + static_cast<std::ptrdiff_t>(i));
    put(of);
  }
  if (held.node != self_.node) {  // all its blocks have the new name now
    held.node = self_.node;
    put(of);
  }
}

// False: the node does not have the block any more.
bool Keeper::check(Network& of, Block& block) {
  rename_question(of, block);
  Object mine = object_of(*of.held, block);
  const auto& seen = view_.blocks(of.held->network);
  const auto there = seen.find(block.cidr.ip);
  const bool is_seen = there != seen.end() && there->second.is_claim_of(mine);
  if (block.state == State::kReturning) return finish_return(of, block);
  if (is_seen && block.state == State::kHeld) return true;
  const bool is_others = there != seen.end() && !is_seen;
  if (block.state == State::kLost && is_others && there->second.node == block.holder) {
    const auto store = store_of(*of.held);
    return !store ||
           !leases::in_block(store->used(), block.cidr).empty();  // its last pod was removed
  }
  auto other = engine_.create(mine);
  if (other && other->machine == self_.machine && other->claim == block.claim) {
    const bool is_mine = other->is_claim_of(mine);
    if (!is_mine && !take_back(of, block, *other, mine)) return true;
    if (is_mine) mine.version = other->version;
    other.reset();
  } else if (!other) {
    found_lost(of, block);
  }
  if (other && is_question_to(of, *other)) return answer(*other, mine);
  view_.put(other ? *other : mine);
  if (other && self_.made(*other) && !of.own.is_of_copy(*other)) {
    block.claim = other->claim;  // the file is an older one
    put(of);
  } else if (other) {
    lose(of, block, *other);
  } else if (block.state == State::kLost) {
    cni::log(Level::kInfo, "a lost block is this node's again",
             {{"network", of.held->network}, {"block", block.cidr.str()}});
    block = {.cidr = block.cidr, .claim = block.claim};
    put(of);
  }
  return true;
}

// An agent of a release without questions took one for a claim of its own: asked by it, this node
// would be silent for ever.
void Keeper::rename_question(Network& of, Block& block) {
  const Object question = object_of(*of.held, block);
  if (!is_question(question)) return;
  Object mine = question;
  mine.claim = of.own.fresh();
  if (engine_.replace(question, mine)) view_.put(mine);
  block.claim = mine.claim;
  put(of);
}

// Also by its former name: the agent may not have run since it was renamed.
bool Keeper::is_question_to(const Network& of, const Object& other) {
  if (!is_question(other) || other.machine != self_.machine) return false;
  return other.node == self_.node || (other.node == of.held->node && is_renamed(of, other));
}

// `cnitool blocks release` asks whether this node lives. True: in any case it has the block.
bool Keeper::answer(const Object& question, Object& mine) {
  if (!engine_.replace(question, mine)) return true;
  view_.put(mine);
  cni::log(
      Level::kWarning,
      "said that this node lives, because `cnitool blocks release` or a copy of this machine asked",
      {{"network", mine.network}, {"block", mine.cidr.str()}});
  return true;
}

// By claims of which no file says anything, as it is torn, or leases are unknown: the node lives,
// and its pods may have addresses in the blocks.
void Keeper::answer_unread(const std::string& network) {
  for (const Object& one : claims_beside(self_, {.network = network, .node = self_.node}, view_)) {
    if (!is_question(one)) continue;
    const auto kept = networks_.find(network);
    Object mine = one;
    mine.claim = kept == networks_.end() ? new_claim() : kept->second.own.fresh();
    answer(one, mine);
  }
}

// Whether a claim with this node's machine-id and another name is that of its former name. Not
// while there is a Node object of that name: then this machine is a copy of that one's disk.
bool Keeper::is_renamed(const Network& of, const Object& from) {
  if (of.held->node == self_.node || !engine_.has_node || !engine_.has_node(from.node)) return true;
  cni::log(Level::kError,
           "a Node object has the name that this machine's blocks have: it is a copy of that node, "
           "or was renamed, and the former object has to be deleted",
           {{"network", of.held->network}, {"node", from.node}});
  return false;
}

// A claim of this node by another name. That is its former one, or, where the file says that it has
// not been renamed, the name of a copy of its disk. The copy knows the claim, so it gets a new one.
bool Keeper::take_back(Network& of, Block& block, const Object& from, Object& mine) {
  if (!is_renamed(of, from)) {
    block.claim = of.own.fresh();  // the other machine knows this one
    lose(of, block, from);
    return false;
  }
  const bool is_copy = of.held->node == self_.node;
  if (is_copy) {
    mine.claim = of.own.fresh();
    cni::log(Level::kError, "another machine has a copy of this one's disk and machine-id",
             {{"network", of.held->network}, {"block", block.cidr.str()}, {"node", from.node}});
  }
  if (!engine_.replace(from, mine)) return false;
  block.claim = mine.claim;
  if (is_copy) put(of);
  return true;
}

// ADD takes no address of it from now on; those of living pods stay theirs.
void Keeper::lose(Network& of, Block& block, const Object& holder) {
  const std::string node = holder_of(holder);
  cni::log(Level::kError, "another node has a block of this node: its addresses may be doubled",
           {{"network", of.held->network}, {"block", block.cidr.str()}, {"holder", node}});
  auto store = store_of(*of.held);
  if (store) {
    const Outside outside(mutex_);
    store->lock(kLeaseLock);
  }
  block.state = State::kLost;
  block.holder = node;
  put(of);
}

// The agent was killed, or the engine was away, between the mark and the removal.
bool Keeper::finish_return(Network& of, const Block& block) {
  const Object mine = object_of(*of.held, block);
  Object former = mine;
  former.node = of.held->node;  // of before it was renamed
  if (engine_.remove(mine) == Removal::kOther && former.node != mine.node) engine_.remove(former);
  view_.erase_claim(mine);
  return false;
}

// Objects of this node that its file does not have: the answer of a call was lost, or the file was,
// or the engine was restored to when this node had the block, which another one has by now. Leases
// in it say that it is in use here. What was seen may be late, so the engine is asked.
// When to be called again.
Keeper::Time Keeper::adopt(Network& of, Time now) {
  std::vector<Object> found = claims_beside(self_, *of.held, view_);
  std::erase_if(found, [&](const Object& one) { return of.own.is_of_copy(one); });
  Time next = cni::kNever;
  if (found.empty()) return next;
  const auto store = store_of(*of.held);
  if (!store) {
    answer_unread(of.held->network);
    return next;
  }
  const auto used = store->used();
  for (Object& one : found) {
    if (leases::in_block(used, one.cidr).empty()) {
      next = std::min(next, drop_left_over(of, one, now));
      continue;
    }
    if (const Object question = one; is_question(question)) {
      one.claim = of.own.fresh();
      if (!engine_.replace(question, one)) continue;
    }
    const auto other = engine_.create(one);
    if (other && !other->is_claim_of(one)) {
      view_.put(*other);
      continue;
    }
    cni::log(Level::kInfo, "found a claim of this node",
             {{"network", one.network}, {"block", one.cidr.str()}});
    view_.put(one);
    of.held->blocks.push_back({.cidr = one.cidr, .claim = one.claim});
    put(of);
  }
  return next;
}

// A claim without leases that the file does not have, of an earlier process or of a copy of this
// machine: it is asked for before it is removed. When to look for the answer.
Keeper::Time Keeper::drop_left_over(Network& of, const Object& one, Time now) {
  if (is_question(one)) {
    if (const Time until = of.own.answer_until(one, now); now < until) return until;
  } else if (!of.own.made(one.claim)) {
    Object question = one;
    question.claim = new_question();
    if (!engine_.replace(one, question)) return cni::kNever;  // an event is on its way
    view_.put(question);
    return of.own.asked(question, now);
  }
  if (engine_.remove(one) == Removal::kRemoved) of.own.removed(one);
  view_.erase_claim(one);
  return cni::kNever;
}

// Why this node must claim nothing: a node of its name has blocks, and is another machine, or a
// copy of this one.
std::string Keeper::twin_of(const Network& of) const {
  for (const auto& [first, one] : view_.blocks(of.held->network)) {
    if (one.node != self_.node || one.machine == self_.machine) continue;
    return cat("another machine has blocks as node '", self_.node,
               "', too: name one of them anew, or, if the other one does not exist any more, run "
               "`cnitool blocks release --force ",
               self_.node, "`");
  }
  for (const Object& one : claims_beside(self_, *of.held, view_)) {
    if (!of.own.is_of_copy(one)) continue;
    return cat("a copy of this machine claims blocks, with its name '", self_.node,
               "' and its machine-id(5): both can give out the same addresses. Stop it, give it a "
               "name and a machine-id of its own, and remove ",
               folder_.path(), " in it. If none runs any more, restart patchbay-agent here");
  }
  return {};
}

}  // namespace block_agent

#include "plugins/cluster-pool/agent/keeper.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/daemon/log.h"
#include "plugins/leases/block.h"
#include "plugins/state/waiters.h"

namespace block_agent {

using cni::cat;
using cni::Level;

namespace {

// A list of blocks that grows for ever is a mistake somewhere.
constexpr cni::BootTime kRetry = std::chrono::seconds(30);  // of a want, without an event
constexpr std::chrono::milliseconds kFolderLock{
    2'000};  // of an ADD that was stopped; SIGTERM waits
constexpr std::size_t kMaxBlocks = 100'000;

// A packet filter that drops is silent until the deadline of the first call.
std::string no_answer_of(const Engine& engine) {
  return cat("no answer yet", engine.at.empty() ? "" : " from ", engine.at);
}

}  // namespace

Keeper::Keeper(Self self, Times times, const Engine& engine, blocks::Folder folder)
    : self_(std::move(self)),
      times_(times),
      direct_(engine),
      engine_(outside_of(mutex_, engine)),
      folder_(std::move(folder)),
      seen_(Seen::read(folder_)) {}

void Keeper::begin_settling(Time now) {
  settled_at_ = now + times_.settle;
  seen_.is_settling = true;
  ++restores_;
  for (auto& [name, one] : networks_) {
    one.pinned = {};
    one.own.begin_anew(settled_at_);
  }
}

// Other nodes' claims are missing, too, perhaps. The next process is to know that as well.
void Keeper::found_lost(const Network& of, const blocks::Block& block) {
  cni::log(Level::kWarning, "claimed a block again, which the engine had lost",
           {{"network", of.held->network}, {"block", block.cidr.str()}});
  const Time now = cni::EventLoop::now() + of.ahead;  // the call may have taken minutes
  if (block.state != blocks::State::kHeld || now < settled_at_) return;
  begin_settling(now);
  seen_.write(folder_);
}

// A revision that goes backwards: the engine has forgotten the last claims.
void Keeper::listed(Kind kind, Snapshot snapshot, Time now) {
  const std::lock_guard hold(mutex_);
  totals_.contact = now;
  const std::string cluster = snapshot.cluster.empty() ? "-" : snapshot.cluster;
  const bool is_other = !seen_.cluster.empty() && cluster != seen_.cluster;
  const bool is_older = snapshot.revision != 0 && snapshot.revision < seen_.revisions[kind];
  const bool goes_on = seen_.is_settling && settled_at_ == Time(0);  // this process began meanwhile
  if (goes_on) settled_at_ = now + times_.settle;
  if (is_other || is_older) {
    begin_settling(now);
    cni::log(Level::kWarning,
             is_other
                 ? "the engine is another cluster: claim no block for a while"
                 : "the engine was restored from an older snapshot: claim no block for a while",
             {{"seconds", cat(times_.settle.count() / 1000)}});
  }
  if (snapshot.objects.size() > kMaxBlocks) snapshot.objects.resize(kMaxBlocks);
  vanished_.drop(view_, now);
  auto gone = view_.replace(kind, std::move(snapshot.objects));
  std::erase_if(gone, [this](const Object& one) {
    return one.node == self_.node || one.machine == self_.machine;
  });
  if (kind == Kind::kBlock) vanished_.keep(view_, std::move(gone), now + times_.settle);
  error_.clear();
  totals_.is_engine_there = true;
  for (auto& [network, one] : failures_) one.pauses.reset();
  if (is_other) seen_.revisions.clear();
  if (!is_other && !seen_.cluster.empty() && snapshot.revision == seen_.revisions[kind]) return;
  seen_.cluster = cluster;
  seen_.revisions[kind] = snapshot.revision;
  try {
    seen_.write(folder_);
  } catch (const netlink::Error& e) {  // a full disk: all else goes on
    cni::log(Level::kWarning, "keep how far the engine was seen", {{"error", e.what()}});
  }
}

void Keeper::changed(const Object& object) {
  const std::lock_guard hold(mutex_);
  totals_.contact = cni::EventLoop::now();
  seen_.raise(object);
  view_.put(object);
}

void Keeper::removed(const Object& object) {
  const std::lock_guard hold(mutex_);
  totals_.contact = cni::EventLoop::now();
  seen_.raise(object);
  view_.erase(object);
}

void Keeper::failed(const std::string& error) {
  const std::lock_guard hold(mutex_);
  ++totals_.errors;
  totals_.is_engine_there = false;
  error_ = error;
  if (logged_ != error) cni::log(Level::kWarning, "follow blocks", {{"error", error}});
  logged_ = error;
}

// An agent with an unreadable file still answers a question, because its node may have pods.
auto Keeper::or_answer(const std::string& network, auto&& read) {
  try {
    return read();
  } catch (const cni::Error&) {
    answer_unread(network);
    throw;
  }
}

Keeper::Network& Keeper::load(const std::string& network) {
  const auto found = networks_.find(network);
  if (found != networks_.end()) return found->second;
  auto held = or_answer(network, [&] { return folder_.held(network); });
  Network& out = networks_[network];
  out.held = std::move(held);
  return out;
}

// ADD goes by the file. So does this node after a failure: complain().
void Keeper::put(Network& of) {
  of.is_written = false;
  folder_.put(*of.held);
  of.is_written = true;
  seen_.write(folder_);
}

// Why there is no next block; "": nothing is wrong.
void Keeper::note(Network& of, const std::string& text) {
  if (!of.held || of.held->note == text) return;
  of.held->note = text;
  of.held->noted = text.empty() ? 0 : static_cast<std::int64_t>(std::time(nullptr));
  put(of);
}

// Nothing: the first ADD is to make the folder, or it is not mounted here. Then leases are unknown.
std::optional<leases::Store> Keeper::store_of(const blocks::Held& held) const {
  return leases::Store::open(held.pool.data_dir, held.network,
                             leases::Host::current("patchbay-agent"));
}

Object Keeper::object_of(const blocks::Held& held, const blocks::Block& block) const {
  return {.network = held.network,
          .cidr = block.cidr,
          .node = self_.node,
          .machine = self_.machine,
          .claim = block.claim};
}

// A state that is not in the file, as on a full disk, is forgotten: a block that is returning or
// lost in memory alone would be held for ADD.
void Keeper::complain(const std::string& network, const std::exception& e) {
  ++totals_.errors;
  std::string& logged = failures_[network].logged;
  if (logged != e.what()) {
    cni::log(Level::kWarning, "keep blocks", {{"network", network}, {"error", e.what()}});
  }
  logged = e.what();
  const auto* const known = dynamic_cast<const cni::Error*>(&e);
  failures_[network].is_engines = known != nullptr && known->code() == cni::Code::kTryAgainLater;
  const auto found = networks_.find(network);
  if (found == networks_.end()) return;
  const bool has_details = known != nullptr && !known->details().empty();
  try {
    if (!found->second.is_written) return forget(network);
    note(found->second, has_details ? cat(e.what(), " (", known->details(), ")") : e.what());
  } catch (const std::exception& failure) {
    cni::log(Level::kWarning, "note an error", {{"network", network}, {"error", failure.what()}});
    forget(network);
  }
}

Keeper::Time Keeper::work(Time now) {
  Time next = cni::kNever;
  for (const std::string& network : networks()) next = std::min(next, work(network, now));
  return next;
}

Keeper::Time Keeper::work(const std::string& network, Time now) {
  const std::lock_guard hold(mutex_);
  const Time begun = cni::EventLoop::now();
  try {
    const Time dropped = vanished_.drop(view_, now);
    const Time next = std::min(dropped, work_on(network, now));
    failures_.erase(network);
    if (error_.empty() && failures_.empty()) logged_.clear();
    return next;
  } catch (const std::exception& e) {
    complain(network, e);
    // The pause is after the call that failed, which may have taken minutes.
    return now + (cni::EventLoop::now() - begun) + failures_[network].pauses.next();
  }
}

Keeper::Time Keeper::work_on(const std::string& network, Time now) {
  Network& of = load(network);
  const auto want = or_answer(network, [&] { return folder_.want(network); });
  of.ahead = now - cni::EventLoop::now();
  if (!of.held && !want) {
    forget(network);
    answer_unread(network);
    return cni::kNever;
  }
  if (!of.held) of.held = blocks::Held{.network = network, .node = self_.node, .pool = want->pool};
  if (want && is_over(of, *want, now)) {
    cni::log(Level::kInfo, "forget a want, because no ADD waits any more", {{"network", network}});
    of.unwaited.reset();
    const Outside outside(mutex_);
    folder_.served(*want, kFolderLock);
    // An ADD that has just begun saw it, and wrote none.
    if (blocks::are_waiting(folder_.dir(), network)) folder_.ask(*want, kFolderLock);
    return now;
  }
  const Time over_at = want ? of.unwaited_at + kWantLasts : cni::kNever;
  if (!view_.is_listed()) {
    if (want) {
      note(of, cat(engine_.name,
                   " was not reached yet: ", error_.empty() ? no_answer_of(engine_) : error_));
    }
    return over_at;  // or until it is
  }
  if (seen_.is_settling && settled_at_ != Time(0) && now >= settled_at_) {
    seen_.is_settling = false;
    seen_.write(folder_);
  }
  of.own.trust(claims_beside(self_, *of.held, view_), *of.held, now);
  check_blocks(of);
  const Time answers = adopt(of, now);
  const Time next = std::min(answers, attend(of, want, now));
  return std::min({next, return_idle(of, now), write_nodes(network, of, now)});
}

Keeper::Time Keeper::attend(Network& of, const std::optional<blocks::Want>& want, Time now) {
  const std::string& network = of.held->network;
  if (!want) end_shortage(of);
  if (const std::string twin = twin_of(of); !twin.empty()) {
    if (of.held->note != twin) {
      cni::log(Level::kError, "claim no block", {{"network", network}, {"error", twin}});
    }
    note(of, twin);
    return want ? now + kRetry : cni::kNever;
  }
  if (!want && error_.empty()) note(of, "");
  if (now < settled_at_) {
    if (want) note(of, cat(engine_.name, " was restored: all nodes claim again what they have"));
    return settled_at_;
  }
  if (!want) return cni::kNever;
  if (!serve(of, *want, now)) return now + kRetry;
  const Outside outside(mutex_);  // an ADD may hold up the lock of the folder
  return folder_.served(*want, kFolderLock) ? cni::kNever : now;  // now: the plugin has added to it
}

Totals Keeper::totals() const {
  const std::lock_guard hold(mutex_);
  Totals out = totals_;
  out.error = error_.empty() && !out.is_engine_there ? no_answer_of(engine_) : error_;
  for (const auto& [network, one] : failures_) {
    if (out.error.empty() && one.is_engines) out.error = one.logged;
  }
  out.is_engine_there = view_.is_listed() && out.error.empty();
  return out;
}

std::vector<Count> Keeper::counts() const {
  const std::lock_guard hold(mutex_);
  std::vector<Count> out;
  for (const auto& [name, one] : networks_) {
    if (!one.held) continue;
    Count& count = out.emplace_back(Count{.network = name});
    const auto store = leases::Store::open(one.held->pool.data_dir, name, leases::Host::current());
    const auto used = store ? store->used() : std::vector<netlink::Ip>{};
    for (const blocks::Block& block : one.held->blocks) {
      if (block.state == blocks::State::kReturning) ++count.returning;
      if (block.state == blocks::State::kLost) ++count.lost;
      if (block.state != blocks::State::kHeld) continue;
      ++count.held;
      if (const auto* const range = one.held->pool.find(block.cidr)) {
        count.addresses += range->size_of(block.cidr);
      }
      count.leases += leases::in_block(used, block.cidr).size();
    }
  }
  return out;
}

}  // namespace block_agent

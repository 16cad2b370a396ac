#include "plugins/cluster-pool/agent/keeper.h"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "libcni/daemon/log.h"
#include "plugins/leases/block.h"

namespace block_agent {

using cni::cat;
using cni::Level;

namespace {

// A list of blocks that grows for ever is a mistake somewhere.
constexpr cni::BootTime kRetry = std::chrono::seconds(30);  // of a want, without an event
constexpr std::size_t kMaxBlocks = 100'000;
constexpr const char* kSeenFile = ".seen";

}  // namespace

Seen Seen::read(const blocks::Folder& folder) {
  Seen out;
  const auto file = folder.dir().read(kSeenFile);
  if (!file) return out;
  const auto doc = cni::try_parse_json(file->content);
  if (!doc.is_object() || !doc.contains("cluster") || !doc["cluster"].is_string()) return out;
  out.cluster = doc["cluster"].get<std::string>();
  const auto settling = doc.find("settling");
  out.is_settling = settling != doc.end() && settling->is_boolean() && settling->get<bool>();
  const auto revisions = doc.find("revisions");
  if (revisions == doc.end() || !revisions->is_array()) return out;
  for (std::size_t i = 0; i < revisions->size() && i < std::size(kKinds); ++i) {
    if ((*revisions)[i].is_number_unsigned()) {
      out.revisions[kKinds[i]] = (*revisions)[i].get<std::uint64_t>();
    }
  }
  return out;
}

void Seen::write(const blocks::Folder& folder) const {
  nlohmann::ordered_json doc = {
      {"cluster", cluster}, {"settling", is_settling}, {"revisions", nlohmann::json::array()}};
  for (const Kind kind : kKinds) {
    const auto found = revisions.find(kind);
    doc["revisions"].push_back(found == revisions.end() ? 0 : found->second);
  }
  folder.dir().replace(kSeenFile, doc.dump(), cat(kSeenFile, ".new"));
}

void Seen::raise(const Object& object) {
  std::uint64_t& revision = revisions[object.kind];
  revision = std::max(revision, object.version);
}

Keeper::Keeper(Self self, Times times, const Engine& engine, blocks::Folder folder)
    : self_(std::move(self)),
      times_(times),
      engine_(engine),
      folder_(std::move(folder)),
      seen_(Seen::read(folder_)) {}

// A revision that goes backwards: the engine has forgotten the last claims.
void Keeper::listed(Kind kind, Snapshot snapshot, Time now) {
  const std::string cluster = snapshot.cluster.empty() ? "-" : snapshot.cluster;
  const bool is_other = !seen_.cluster.empty() && cluster != seen_.cluster;
  const bool is_older = snapshot.revision != 0 && snapshot.revision < seen_.revisions[kind];
  const bool goes_on = seen_.is_settling && settled_at_ == Time(0);  // this process began meanwhile
  if (goes_on) settled_at_ = now + times_.settle;
  if (is_other || is_older) {
    settled_at_ = now + times_.settle;
    seen_.is_settling = true;
    cni::log(Level::kWarning,
             is_other
                 ? "the engine is another cluster: claim no block for a while"
                 : "the engine was restored from an older snapshot: claim no block for a while",
             {{"seconds", cat(times_.settle.count() / 1000)}});
    for (auto& [name, one] : networks_) one.pinned = {};
  }
  if (snapshot.objects.size() > kMaxBlocks) snapshot.objects.resize(kMaxBlocks);
  view_.replace(kind, snapshot.objects);
  error_.clear();
  totals_.is_engine_there = true;
  pauses_.reset();
  if (is_other) seen_.revisions.clear();
  if (!is_other && !seen_.cluster.empty() && snapshot.revision == seen_.revisions[kind]) return;
  seen_.cluster = cluster;
  seen_.revisions[kind] = snapshot.revision;
  seen_.write(folder_);
}

void Keeper::changed(const Object& object) {
  seen_.raise(object);
  view_.put(object);
}

void Keeper::removed(const Object& object) {
  seen_.raise(object);
  view_.erase(object);
}

void Keeper::failed(const std::string& error) {
  ++totals_.errors;
  totals_.is_engine_there = false;
  error_ = error;
  if (logged_ != error) cni::log(Level::kWarning, "follow blocks", {{"error", error}});
  logged_ = error;
}

Keeper::Network& Keeper::load(const std::string& network) {
  const auto found = networks_.find(network);
  if (found != networks_.end()) return found->second;
  auto held = folder_.held(network);
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
  totals_.is_engine_there = false;
  if (logged_ != e.what()) {
    cni::log(Level::kWarning, "keep blocks", {{"network", network}, {"error", e.what()}});
  }
  logged_ = e.what();
  const auto found = networks_.find(network);
  if (found == networks_.end()) return;
  const auto* const known = dynamic_cast<const cni::Error*>(&e);
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
  bool has_failed = false;
  for (const std::string& network : folder_.networks()) {
    try {
      next = std::min(next, work_on(network, now));
    } catch (const std::exception& e) {
      has_failed = true;
      complain(network, e);
    }
  }
  if (has_failed) return std::min(next, now + pauses_.next());
  if (view_.is_listed() && error_.empty()) {
    totals_.is_engine_there = true;
    logged_.clear();
  }
  return next;
}

Keeper::Time Keeper::work_on(const std::string& network, Time now) {
  Network& of = load(network);
  const auto want = folder_.want(network);
  if (!of.held && !want) return cni::kNever;
  if (!of.held) of.held = blocks::Held{.network = network, .node = self_.node, .pool = want->pool};
  if (!view_.is_listed()) {
    if (want) {
      note(of, cat(engine_.name, " was not reached yet", error_.empty() ? "" : cat(": ", error_)));
    }
    return cni::kNever;  // until it is
  }
  if (seen_.is_settling && settled_at_ != Time(0) && now >= settled_at_) {
    seen_.is_settling = false;
    seen_.write(folder_);
  }
  check_blocks(of);
  adopt(of);
  Time next = cni::kNever;
  if (const std::string twin = twin_of(network); !twin.empty()) {
    if (of.held->note != twin) {
      cni::log(Level::kError, "claim no block", {{"network", network}, {"error", twin}});
    }
    note(of, twin);
  } else if (now < settled_at_) {
    if (want) note(of, cat(engine_.name, " was restored: all nodes claim again what they have"));
    next = settled_at_;
  } else if (!want) {
    note(of, "");
  } else if (!serve(of, *want, now)) {
    next = now + kRetry;
  } else {
    if (!folder_.served(*want)) next = now;  // the plugin has added to it
  }
  if (!want) end_shortage(of);
  return std::min({next, return_idle(of, now), write_nodes(network, of, now)});
}

std::vector<Count> Keeper::counts() const {
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

#include "plugins/devices/agent/core.h"

#include <algorithm>
#include <set>
#include <utility>

#include "libcni/common/error.h"
#include "plugins/devices/agent/core_state.h"
#include "plugins/devices/agent/handout.h"
#include "plugins/devices/agent/log.h"
#include "plugins/devices/agent/stock/preference.h"

namespace devices {

using cni::cat;
using cni::Code;

Core::Core(Pools pools, Places places)
    : state_(std::make_unique<State>(std::move(pools), std::move(places))) {
  {
    const auto lock = state_->ledger.lock();
    for (const std::string& name : state_->ledger.sweep()) {
      log(Level::kWarning, "remove torn holder", {.device = name});
    }
  }
  refresh();
}

Core::~Core() = default;

std::vector<std::string> Core::resources() const {
  std::vector<std::string> out;
  for (const Pool& pool : state_->pools.pools) out.push_back(pool.resource);
  return out;
}

// Another instance with another config may still serve Allocate.
bool Core::has_resource(const std::string& resource) const {
  if (state_->pool_of(resource) || state_->former.contains(resource)) return true;
  const auto is_of = [&](const Entry& one) { return one.resource == resource; };
  return state_->entries.find(is_of).has_value();
}

std::vector<Offer> Core::offers(const std::string& resource) const {
  std::vector<Offer> out;
  const auto pool = state_->pool_of(resource);
  if (!pool) return out;
  const std::lock_guard lock(state_->mutex);
  for (const auto& [id, item] : state_->stock.pools[*pool]) out.push_back(item.offer);
  return out;
}

std::vector<Count> Core::counts() const {
  state_->require_ledger();
  const std::lock_guard lock(state_->mutex);
  return state_->counts;
}

void Core::note_read(const std::string& resource, bool is_read) {
  const auto pool = state_->pool_of(resource);
  if (!pool) return;
  const std::lock_guard lock(state_->mutex);
  if (std::exchange(state_->counts[*pool].is_read, is_read) == is_read) return;
  state_->write_metrics_file();
}

Handout Core::allocate(const std::string& resource, const std::vector<std::string>& ids) {
  State& state = *state_;
  const auto pool = state.pool_of(resource);
  if (!pool) throw cni::Error(Code::kInvalidConfig, cat("allocate: no resource ", resource));
  Handout out;
  {
    const auto [ledger_lock, lock] = state.lock();
    Count& count = state.counts[*pool];
    try {
      std::vector<const Item*> items;
      for (const std::string& id : ids) items.push_back(&state.require(*pool, id));
      out = handout_of(state.pools.pools[*pool], items, state.sysfs);
      state.promise(*pool, items);
      for (const Item* item : items) state.write_info(*pool, *item);
    } catch (...) {
      ++count.failures;
      throw;
    }
    count.allocations += ids.size();
  }
  for (const std::string& id : ids) {
    log(Level::kInfo, "allocate device", {.resource = resource, .device = id});
  }
  if (state.allocated) state.allocated();
  return out;
}

std::vector<std::string> Core::preferred(const std::string& resource,
                                         const Preference& asked) const {
  std::map<std::string, std::optional<int>> numa;
  for (const Offer& offer : offers(resource)) numa.emplace(offer.id, offer.numa);
  return preferred_of(asked, numa);
}

void Core::subscribe(std::function<void()> changed) { state_->changed = std::move(changed); }

void Core::on_allocate(std::function<void()> allocated) {
  state_->allocated = std::move(allocated);
}

void Core::refresh() {
  State& state = *state_;
  state.require_ledger();
  bool is_new = false;
  Stock stock = state.look();
  const Entries entries = by_id(state.entries.all());
  {
    const std::lock_guard lock(state.mutex);
    for (std::size_t i = 0; i < stock.pools.size(); ++i) {
      const auto is_same = [](const auto& a, const auto& b) {
        return a.second.offer == b.second.offer;
      };
      is_new |= !std::ranges::equal(stock.pools[i], state.stock.pools[i], is_same);
      Count& count = state.counts[i];
      count.devices = stock.pools[i].size();
      count.healthy = count.allocated = 0;
      for (const auto& [id, item] : stock.pools[i]) {
        count.healthy += item.offer.healthy ? 1U : 0U;
        count.allocated += entries.contains(id) ? 1U : 0U;
      }
    }
    state.stock = std::move(stock);
    state.write_cdi_files();
    state.write_metrics_file();
  }
  if (is_new && state.changed) state.changed();
}

bool Core::concerns(const Pod& pod) const {
  state_->require_ledger();
  return state_->concerns(pod);
}

std::vector<std::string> Core::claim(const Pod& pod, const std::vector<Owned>& owned) {
  State& state = *state_;
  std::set<std::pair<std::string, std::string>> wanted;  // resource and id
  for (const Owned& one : owned) {
    if (!has_resource(one.resource)) continue;
    for (const std::string& id : one.ids) wanted.emplace(one.resource, id);
  }
  const auto [ledger_lock, lock] = state.lock();
  std::vector<Entry> entries;
  for (const auto& [resource, id] : wanted) {
    try {
      if (auto entry = state.claimed(resource, id, pod)) entries.push_back(*std::move(entry));
    } catch (...) {
      state.count_failure(resource);
      throw;
    }
  }
  state.require_all_listed(pod, wanted);
  std::vector<std::string> out;
  // The kubelet says it again after a power loss.
  for (const Entry& entry : entries) {
    state.ledger.put_unsynced(entry);
    out.push_back(entry.id);
  }
  return out;
}

bool Core::has_unclaimed() const { return state_->entries.find(&Entry::is_unclaimed).has_value(); }

bool Core::reconcile(const std::vector<PodDevices>& listed, std::int64_t now) {
  State& state = *state_;
  const Listing listing(listed);
  // A kubelet that has just started has no pod before it reaches the API server.
  const bool is_list = !listed.empty();
  if (is_list) state.concerns.note(listed);
  const auto [ledger_lock, lock] = state.lock();
  const std::vector<Entry> entries = state.entries.all();
  bool is_open = false;
  for (const Entry& entry : entries) {
    state.report_unclaimed(entry, now);
    switch (state.reconciler.decide(entry, listing, now)) {
      case Fate::kStays:
        is_open |= entry.is_unclaimed();
        break;
      case Fate::kGetsPod: {
        const PodDevices* const owner = listing.owner_of(entry);
        Entry changed = entry;
        changed.pod = Pod{owner->space, owner->name};
        state.ledger.put_unsynced(changed);
        break;
      }
      case Fate::kIsFree:
        if (is_list ? !state.has_folder(entry) : state.is_gone(entry)) state.release(entry);
        break;
    }
  }
  state.reconciler.keep_only(entries);
  std::erase_if(state.reported,
                [known = by_id(entries)](const auto& one) { return !known.contains(one.first); });
  return is_open;
}

}  // namespace devices

#include "plugins/devices/agent/core.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>
#include <set>
#include <utility>

#include "libcni/common/error.h"
#include "plugins/devices/agent/concerns.h"
#include "plugins/devices/agent/files/cdi.h"
#include "plugins/devices/agent/files/device_info.h"
#include "plugins/devices/agent/files/metrics.h"
#include "plugins/devices/agent/handout.h"
#include "plugins/devices/agent/inventory/inventory.h"
#include "plugins/devices/agent/log.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/agent/reconcile.h"
#include "plugins/devices/agent/stock/preference.h"
#include "plugins/devices/agent/stock/stock.h"
#include "plugins/devices/ledger/ledger.h"

namespace devices {

using cni::cat;
using cni::Code;

namespace {

Entries by_id(std::vector<Entry> list) {
  Entries out;
  for (Entry& one : list) out.insert_or_assign(one.id, std::move(one));
  return out;
}

// Files are for readers outside: an error in one is logged, and fails no call.
template <class Fn>
void attempt(const char* what, const std::string& resource, Fn&& fn) noexcept {
  try {
    fn();
  } catch (const std::exception& e) {
    log(Level::kWarning, what, {.resource = resource, .error = e.what()});
  }
}

}  // namespace

struct Core::State {
  State(Pools of, Places at)
      : pools(std::move(of)),
        places(std::move(at)),
        ledger(Ledger::create(places.ledger)),
        sysfs(places.sysfs),
        counts(pools.pools.size()) {
    stock.pools.resize(pools.pools.size());
    for (std::size_t i = 0; i < pools.pools.size(); ++i) {
      counts[i].resource = pools.pools[i].resource;
      index.emplace(pools.pools[i].resource, i);
    }
  }

  /// Of a resource; nothing for one of others.
  std::optional<std::size_t> pool_of(const std::string& resource) const {
    const auto found = index.find(resource);
    if (found == index.end()) return std::nullopt;
    return found->second;
  }

  Stock look() const;
  void write_cdi_files() const;
  void write_metrics_file();
  const Item& require(std::size_t pool, const std::string& id) const;
  void promise(std::size_t pool, const std::vector<const Item*>& items) const;
  Entry promised(std::size_t pool, const Item& item, Entry entry) const;
  Entry claimed(std::size_t pool, const std::string& id, const Pod& pod) const;
  void write_info(std::size_t pool, const Item& item) const;
  void release(const Entry& entry);
  void adopt(const std::vector<PodDevices>& listed, const std::vector<Entry>& entries) const;

  const Pools pools;
  const Places places;
  const Ledger ledger;
  Concerns concerns{ledger};
  std::atomic<bool> is_complete = false;  // whether the ledger has what the kubelet has listed
  const Sysfs sysfs;
  std::map<std::string, std::size_t> index;  // of pools, by resource
  std::function<void()> changed, allocated;

  mutable std::mutex mutex;  // for what is below
  Stock stock;
  std::vector<Count> counts;
  Reconciler reconciler;
  std::string metrics;  // as the file has it
};

// A device that a pod got or gave back between the looks at ledger and links was held before or
// after: it does not look as if it had vanished.
Stock Core::State::look() const {
  Entries entries = by_id(ledger.all());
  const auto devices = inventory(node_links(), sysfs.hardware());
  for (Entry& later : ledger.all()) {
    Entry& entry = entries[later.id];
    if (!later.holder) later.holder = std::move(entry.holder);
    entry = std::move(later);
  }
  return stock_of(pools, devices, entries);
}

void Core::State::write_cdi_files() const {
  if (places.cdi.empty()) return;
  std::set<std::string> with_file;
  for (std::size_t i = 0; i < pools.pools.size(); ++i) {
    const Pool& pool = pools.pools[i];
    if (!pool.cdi) continue;
    with_file.insert(pool.resource);
    std::map<std::string, CdiEdits> devices;
    for (const auto& [id, item] : stock.pools[i]) {
      if (!item.is_present || (!item.device && !item.slot)) continue;
      CdiEdits edits = edits_of(pool, item, sysfs);
      devices.emplace(cdi_name(id, edits), std::move(edits));
    }
    attempt("write CDI spec", pool.resource, [&] {
      write_cdi(places.cdi, pool.resource, devices,
                [this](const std::string& id) { return is_device_id(id) && ledger.read(id); });
    });
  }
  attempt("remove CDI specs", "", [&] { remove_other_cdi(places.cdi, with_file); });
}

void Core::State::write_metrics_file() {
  if (places.metrics.empty()) return;
  std::string text = metrics_text(counts);
  if (text == metrics) return;
  attempt("write metrics", "", [&] {
    write_metrics(places.metrics, text);
    metrics = std::move(text);
  });
}

const Item& Core::State::require(std::size_t pool, const std::string& id) const {
  const auto found = stock.pools[pool].find(id);
  if (found == stock.pools[pool].end()) {
    throw cni::Error(Code::kTryAgainLater,
                     cat("allocate device '", id, "': not a device of ", counts[pool].resource));
  }
  if (!found->second.is_present) {
    throw cni::Error(Code::kTryAgainLater, cat("allocate device '", id, "': it vanished"));
  }
  return found->second;
}

// The entry of a device that a pod is to get, whoever had it before.
Entry Core::State::promised(std::size_t pool, const Item& item, Entry entry) const {
  entry.resource = counts[pool].resource;
  entry.promised = static_cast<std::int64_t>(std::time(nullptr));
  entry.pod.reset();
  entry.plugins = plugins_text(pools.pools[pool], item, entry.plugins);
  entry.ifname = pools.pools[pool].attach.ifname;
  return entry;
}

// Either all entries are written, or none.
void Core::State::promise(std::size_t pool, const std::vector<const Item*>& items) const {
  const auto lock = ledger.lock();
  std::vector<Entry> before;
  try {
    for (const Item* item : items) {
      const std::string& id = item->offer.id;
      before.push_back(ledger.read(id).value_or(Entry{.id = id}));
      ledger.put(promised(pool, *item, before.back()));
    }
  } catch (...) {
    for (const Entry& entry : before) {
      attempt("restore entry", entry.resource, [&] { ledger.put_or_remove(entry); });
    }
    throw;
  }
}

void Core::State::write_info(std::size_t pool, const Item& item) const {
  if (places.device_info.empty() || !item.device || item.device->bus != Bus::kPci) return;
  const std::string& resource = counts[pool].resource;
  attempt("write device information", resource, [&] {
    write_device_info(places.device_info, device_info_name(resource, item.offer.id),
                      {item.device->pci, item.device->physical_function});
  });
}

// The entry with the pod in it. Under the lock of the ledger.
Entry Core::State::claimed(std::size_t pool, const std::string& id, const Pod& pod) const {
  const std::string& resource = counts[pool].resource;
  std::optional<Entry> entry = ledger.read(id);
  if (!entry) {
    // The kubelet knows of an Allocate that the ledger has lost.
    entry = promised(pool, require(pool, id), Entry{.id = id});
  }
  const bool is_open = !entry->pod || entry->pod->uid.empty() || entry->is_of(pod);
  if (entry->resource != resource || !is_open) {
    const std::string whose =
        entry->resource != resource ? cat("resource ", entry->resource) : entry->pod->str();
    throw cni::Error(Code::kTryAgainLater,
                     cat("claim device '", id, "' for ", pod.str(), ": it still belongs to ",
                         whose),
                     "the kubelet has not allocated it again");
  }
  entry->pod = pod;
  return *std::move(entry);
}

void Core::State::release(const Entry& entry) {
  ledger.remove(entry.id);
  log(Level::kInfo, "release device",
      {.resource = entry.resource,
       .device = entry.id,
       .pod = entry.pod ? entry.pod->str() : std::string()});
  if (places.device_info.empty()) return;
  attempt("remove device information", entry.resource, [&] {
    remove_device_info(places.device_info, device_info_name(entry.resource, entry.id));
  });
}

// Devices of which the kubelet knows and the ledger does not: its folder was removed. A device that
// is in its pod already is nobody's here.
void Core::State::adopt(const std::vector<PodDevices>& listed,
                        const std::vector<Entry>& entries) const {
  std::set<std::string> known;
  for (const Entry& entry : entries) known.insert(entry.id);
  for (const PodDevices& pod : listed) {
    for (const Owned& owned : pod.devices) {
      const auto pool = pool_of(owned.resource);
      if (!pool) continue;
      for (const std::string& id : owned.ids) {
        const auto item = stock.pools[*pool].find(id);
        if (known.contains(id) || item == stock.pools[*pool].end()) continue;
        if (!item->second.is_present) continue;
        Entry entry = promised(*pool, item->second, Entry{.id = id});
        entry.pod = Pod{pod.space, pod.name};
        ledger.put(entry);
        log(Level::kWarning, "add entry that the ledger has lost",
            {.resource = owned.resource, .device = id, .pod = entry.pod->str()});
      }
    }
  }
}

Core::Core(Pools pools, Places places)
    : state_(std::make_unique<State>(std::move(pools), std::move(places))) {
  {
    const auto lock = state_->ledger.lock();
    for (const std::string& name : state_->ledger.sweep()) {
      log(Level::kWarning, "remove torn entry", {.device = name});
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

bool Core::has_resource(const std::string& resource) const {
  return state_->pool_of(resource).has_value();
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
  const std::lock_guard lock(state_->mutex);
  return state_->counts;
}

Handout Core::allocate(const std::string& resource, const std::vector<std::string>& ids) {
  State& state = *state_;
  const auto pool = state.pool_of(resource);
  if (!pool) throw cni::Error(Code::kInvalidConfig, cat("allocate: no resource ", resource));
  Handout out;
  {
    const std::lock_guard lock(state.mutex);
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
  bool is_new = false;
  {
    const std::lock_guard lock(state.mutex);
    Stock stock = state.look();
    const Entries entries = by_id(state.ledger.all());
    for (std::size_t i = 0; i < stock.pools.size(); ++i) {
      const auto is_same = [](const auto& a, const auto& b) {
        return a.second.offer == b.second.offer;
      };
      is_new |= !std::ranges::equal(stock.pools[i], state.stock.pools[i], is_same);
      Count& count = state.counts[i];
      count.devices = stock.pools[i].size();
      count.healthy = count.allocated = 0;
      for (const auto& [id, item] : stock.pools[i]) {
        count.healthy += item.offer.healthy ? 1 : 0;
        count.allocated += entries.contains(id) ? 1 : 0;
      }
    }
    state.stock = std::move(stock);
    state.write_cdi_files();
    state.write_metrics_file();
  }
  if (is_new && state.changed) state.changed();
}

// Before the kubelet has been asked once, the ledger may have lost what it knows.
bool Core::concerns(const Pod& pod) const {
  return !state_->is_complete || state_->concerns(pod);
}

std::vector<std::string> Core::claim(const Pod& pod, const std::vector<Owned>& owned) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  std::map<std::string, std::set<std::string>> wanted;  // by resource
  for (const Owned& one : owned) {
    if (state.pool_of(one.resource)) wanted[one.resource].insert(one.ids.begin(), one.ids.end());
  }
  std::vector<std::string> out;
  if (wanted.empty()) return out;
  const auto ledger_lock = state.ledger.lock();
  std::vector<Entry> entries;
  for (const auto& [resource, ids] : wanted) {
    const std::size_t pool = *state.pool_of(resource);
    for (const std::string& id : ids) {
      try {
        entries.push_back(state.claimed(pool, id, pod));
      } catch (...) {
        ++state.counts[pool].failures;
        throw;
      }
    }
  }
  // The kubelet says it again after a power loss.
  for (const Entry& entry : entries) {
    state.ledger.put_unsynced(entry);
    out.push_back(entry.id);
  }
  return out;
}

bool Core::has_unclaimed() const {
  const auto entries = state_->ledger.all();
  return std::ranges::any_of(entries, &Entry::is_unclaimed);
}

bool Core::reconcile(const std::vector<PodDevices>& listed, std::int64_t now) {
  State& state = *state_;
  const Listing listing(listed);
  state.concerns.note(listed);
  const std::lock_guard lock(state.mutex);
  const auto ledger_lock = state.ledger.lock();
  const std::vector<Entry> entries = state.ledger.all();
  for (const Entry& entry : entries) {
    switch (state.reconciler.decide(entry, listing, now)) {
      case Fate::kStays:
        break;
      case Fate::kGetsPod: {
        const PodDevices* const owner = listing.owner_of(entry.resource, entry.id);
        Entry changed = entry;
        changed.pod = Pod{owner->space, owner->name};
        state.ledger.put_unsynced(changed);
        break;
      }
      case Fate::kIsFree:
        state.release(entry);
        break;
    }
  }
  state.reconciler.keep_only(entries);
  state.adopt(listed, entries);
  state.is_complete = true;
  return has_unclaimed();
}

}  // namespace devices

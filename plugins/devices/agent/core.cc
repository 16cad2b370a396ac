#include "plugins/devices/agent/core.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "libcni/common/error.h"
#include "plugins/devices/agent/inventory/inventory.h"
#include "plugins/devices/agent/log.h"

namespace devices {

using cni::cat;

Core::Core(Pools pools, Places places)
    : pools_(std::move(pools)),
      places_(std::move(places)),
      ledger_(Ledger::create(places_.ledger)),
      sysfs_(places_.sysfs) {
  stock_.pools.resize(pools_.pools.size());
  for (const Pool& pool : pools_.pools) counts_.push_back({.resource = pool.resource});
  {
    const auto lock = ledger_.lock();
    for (const std::string& name : ledger_.sweep()) {
      log(Level::kWarning, "remove torn holder", {.device = name});
    }
  }
  refresh();
}

// The next process makes the folder, and claims make the entries from what the kubelet says.
void Core::require_ledger() const noexcept {
  if (!ledger_.is_removed()) return;
  log(Level::kError, "end, because the folder of the ledger was removed",
      {.error = cat("'", ledger_.path(), "' does not exist any more")});
  std::_Exit(EXIT_FAILURE);
}

std::optional<std::size_t> Core::pool_of(const std::string& resource) const {
  for (std::size_t i = 0; i < pools_.pools.size(); ++i) {
    if (pools_.pools[i].resource == resource) return i;
  }
  return std::nullopt;
}

std::vector<std::string> Core::resources() const {
  std::vector<std::string> out;
  for (const Pool& pool : pools_.pools) out.push_back(pool.resource);
  return out;
}

// Another instance with another config may still serve Allocate.
bool Core::has_resource(const std::string& resource) {
  const auto is_of = [&](const Entry& one) { return one.resource == resource; };
  return pool_of(resource) || entries_.find(is_of);
}

std::vector<Offer> Core::offers(const std::string& resource) const {
  std::vector<Offer> out;
  const auto pool = pool_of(resource);
  if (!pool) return out;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, item] : stock_.pools[*pool]) out.push_back(item.offer);
  return out;
}

std::vector<Count> Core::counts() const {
  require_ledger();
  const std::lock_guard lock(mutex_);
  return counts_;
}

void Core::note_read(const std::string& resource, bool is_read) {
  const auto pool = pool_of(resource);
  if (!pool) return;
  const std::lock_guard lock(mutex_);
  if (std::exchange(counts_[*pool].is_read, is_read) == is_read) return;
  write_metrics_file();
}

std::vector<std::string> Core::preferred(const std::string& resource,
                                         const Preference& asked) const {
  std::map<std::string, std::optional<int>> numa;
  for (const Offer& offer : offers(resource)) numa.emplace(offer.id, offer.numa);
  return preferred_of(asked, numa);
}

// A device that a pod got or gave back between the looks at ledger and links was held before or
// after: it does not look as if it had vanished.
Stock Core::look() {
  Entries held = entries_.all();
  const auto devices = inventory(node_links(), sysfs_.hardware());
  for (auto& [id, later] : entries_.all()) {
    Entry& entry = held[id];
    auto holder = later.holder ? later.holder : std::move(entry.holder);
    entry = later;
    entry.holder = std::move(holder);
  }
  return stock_of(pools_, devices, held);
}

void Core::look_again() {
  require_ledger();
  const std::lock_guard one_by_one(looking_);
  Stock stock = look();
  const Entries entries = entries_.all();
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < stock.pools.size(); ++i) {
    const auto is_same = [](const auto& a, const auto& b) {
      return a.second.offer == b.second.offer;
    };
    is_new_ |= !std::ranges::equal(stock.pools[i], stock_.pools[i], is_same);
    Count& count = counts_[i];
    count.devices = stock.pools[i].size();
    count.healthy = count.allocated = 0;
    for (const auto& [id, item] : stock.pools[i]) {
      count.healthy += item.offer.healthy ? 1U : 0U;
      count.allocated += entries.contains(id) ? 1U : 0U;
    }
  }
  stock_ = std::move(stock);
  write_cdi_files();
  write_metrics_file();
}

void Core::refresh() {
  look_again();
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    is_new = std::exchange(is_new_, false);
  }
  if (is_new && changed_) changed_();
  if (refreshed_) refreshed_();
}

Stock Core::stock() const {
  const std::lock_guard lock(mutex_);
  return stock_;
}

void Core::note_slices(const dra::SliceState& state) {
  const std::lock_guard lock(mutex_);
  slices_ = state;
  write_metrics_file();
}

std::optional<dra::SliceState> Core::slices() const {
  const std::lock_guard lock(mutex_);
  return slices_;
}

void Core::write_cdi_files() {
  if (places_.cdi.empty()) return;
  std::set<std::string> with_file;
  for (std::size_t i = 0; i < pools_.pools.size(); ++i) {
    const Pool& pool = pools_.pools[i];
    if (!pool.cdi) continue;
    with_file.insert(pool.resource);
    std::map<std::string, CdiEdits> devices;
    for (const auto& [id, item] : stock_.pools[i]) {
      if (!item.is_present || (!item.device && !item.slot)) continue;
      CdiEdits edits = edits_of(pool, item, sysfs_);
      devices.emplace(cdi_name(id, edits), std::move(edits));
    }
    attempt("write CDI spec", pool.resource, [&] {
      write_cdi(places_.cdi, pool.resource, devices,
                [this](const std::string& id) { return is_device_id(id) && ledger_.read(id); });
    });
  }
  attempt("remove CDI specs", "", [&] {
    // Containers start again by the names that they got before a change of the config.
    for (const auto& [id, one] : entries_.all()) with_file.insert(one.resource);
    remove_other_cdi(places_.cdi, with_file);
  });
}

void Core::write_metrics_file() {
  if (places_.metrics.empty()) return;
  std::string text = metrics_text(counts_, slices_);
  if (text == metrics_) return;
  attempt("write metrics", "", [&] {
    write_metrics(places_.metrics, text);
    metrics_ = std::move(text);
  });
}

}  // namespace devices

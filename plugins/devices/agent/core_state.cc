#include "plugins/devices/agent/core_state.h"

#include <cstdlib>
#include <ctime>
#include <utility>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "plugins/devices/agent/files/cdi.h"
#include "plugins/devices/agent/files/device_info.h"
#include "plugins/devices/agent/files/metrics.h"
#include "plugins/devices/agent/handout.h"
#include "plugins/devices/agent/inventory/inventory.h"
#include "plugins/devices/agent/log.h"

namespace devices {

using cni::cat;
using cni::Code;

namespace {

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

Entries by_id(std::vector<Entry> list) {
  Entries out;
  for (Entry& one : list) out.insert_or_assign(one.id, std::move(one));
  return out;
}

Core::State::State(Pools of, Places at)
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
  for (const Entry& entry : entries.all()) {
    if (!index.contains(entry.resource)) former.insert(entry.resource);
  }
}

// The next process makes the folder, and claims make the entries from what the kubelet says.
void Core::State::require_ledger() const noexcept {
  if (!ledger.is_removed()) return;
  log(Level::kError, "end, because the folder of the ledger was removed",
      {.error = cat("'", ledger.path(), "' does not exist any more")});
  std::_Exit(EXIT_FAILURE);
}

Core::State::Locks Core::State::lock() const {
  require_ledger();
  netlink::Fd of_ledger = ledger.lock();
  return {std::move(of_ledger), std::unique_lock(mutex)};
}

// A device that a pod got or gave back between the looks at ledger and links was held before or
// after: it does not look as if it had vanished.
Stock Core::State::look() const {
  Entries held = by_id(entries.all());
  const auto devices = inventory(node_links(), sysfs.hardware());
  for (Entry& later : entries.all()) {
    Entry& entry = held[later.id];
    if (!later.holder) later.holder = std::move(entry.holder);
    entry = std::move(later);
  }
  return stock_of(pools, devices, held);
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
  attempt("remove CDI specs", "", [&] {
    // Containers start again by the names that they got before a change of the config.
    for (const Entry& one : entries.all()) with_file.insert(one.resource);
    remove_other_cdi(places.cdi, with_file);
  });
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

// The entry of a device that is promised to a pod. The holder stays: DEL of an earlier pod needs
// it.
Entry Core::State::promised(std::size_t pool, const Item& item, Entry entry) const {
  entry.resource = counts[pool].resource;
  entry.promised = static_cast<std::int64_t>(std::time(nullptr));
  entry.pod.reset();
  entry.plugins = plugins_text(pools.pools[pool], item, entry.plugins);
  entry.ifname = pools.pools[pool].ifname;
  return entry;
}

// Either all entries are written, or none.
void Core::State::promise(std::size_t pool, const std::vector<const Item*>& items) const {
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

// The entry with the pod in it; nothing for a device of an earlier config that has none.
std::optional<Entry> Core::State::claimed(const std::string& resource, const std::string& id,
                                          const Pod& pod) const {
  std::optional<Entry> entry = ledger.read(id);
  const auto pool = pool_of(resource);
  if (!entry && !pool) return std::nullopt;
  if (pool && (!entry || !entry->is_wanted())) {
    // The kubelet knows of an Allocate that the ledger has lost.
    entry = promised(*pool, require(*pool, id), entry.value_or(Entry{.id = id}));
  }
  const bool is_open = !entry->pod || entry->pod->uid.empty() || entry->is_of(pod);
  if (entry->resource != resource || !is_open) {
    const std::string whose =
        entry->resource != resource ? cat("resource ", entry->resource) : entry->pod->str();
    throw cni::Error(
        Code::kTryAgainLater,
        cat("claim device '", id, "' for ", pod.str(), ": it still belongs to ", whose),
        "the kubelet has not allocated it again");
  }
  if (pool) find_link(*pool, *entry);
  entry->pod = pod;
  return entry;
}

// Since Allocate, as after a boot, the link may have another name, and its own be another link's;
// and the node may use it. host-device refuses a link in use that a PCI address selects, and moves
// one all the same that its name selects.
void Core::State::find_link(std::size_t pool, Entry& entry) const {
  const auto found = stock.pools[pool].find(entry.id);
  if (entry.holder || found == stock.pools[pool].end()) return;
  const Item& item = found->second;
  if (!item.device || !item.device->link) return;
  entry.plugins = with_link(entry.plugins, item.device->link->name);
  if (item.is_forced || item.device->kept_back.empty() || is_hardware_id(entry.id)) return;
  throw cni::Error(Code::kInvalidConfig,
                   cat("claim device '", entry.id, "': the node uses it: ", item.device->kept_back),
                   cat("\"force\" of ", counts[pool].resource, " would offer it all the same"));
}

void Core::State::require_all_listed(const Pod& pod, const Wanted& wanted) const {
  const auto other = entries.find([&](const Entry& entry) {
    return entry.is_of(pod) && !wanted.contains({entry.resource, entry.id});
  });
  if (!other) return;
  throw cni::Error(
      Code::kTryAgainLater,
      cat("claim devices for ", pod.str(), ": the kubelet does not list '", other->id,
          "', which the ledger has as the pod's"),
      "the entry is removed if the kubelet goes on not to list it, and has removed the pod");
}

// Whether the kubelet keeps the pod: it removes the folder after it has heard from the API server,
// which it may not reach for hours after a boot. Until then it lists static pods at most. Later it
// starts the others from its checkpoint, without another Allocate.
bool Core::State::has_folder(const Entry& entry) const {
  if (places.pods.empty() || !entry.pod) return false;
  const std::string& uid = entry.pod->uid;
  const bool is_name = !uid.empty() && uid[0] != '.' && uid.find('/') == uid.npos;
  return is_name && cni::Dir::exists(cat(places.pods, "/", uid));
}

// Without the API server nobody knows more of such a pod. Once for each promise.
void Core::State::report_unclaimed(const Entry& entry, std::int64_t now) {
  const bool is_claimed = entry.holder || (entry.pod && !entry.pod->uid.empty());
  if (entry.promised == 0 || is_claimed || now - entry.promised < kClaimLimit) return;
  if (std::exchange(reported[entry.id], entry.promised) == entry.promised) return;
  const LogFields fields{
      .resource = entry.resource,
      .device = entry.id,
      .pod = entry.pod ? entry.pod->str() : std::string(),
      .error = entry.pod ? "the pod starts without it if its network has no plugin devices"
                         : "the pod starts without it if only init containers ask for it, or if "
                           "its network has no plugin devices"};
  log(entry.pod ? Level::kError : Level::kWarning, "claim device: no ADD has done so for 30 s",
      fields);
}

// Whether the pod was seen to be gone, where the kubelet lists none at all: it has removed its
// folder, or, of a pod whose UID is unknown, those of all pods.
bool Core::State::is_gone(const Entry& entry) const {
  if (places.pods.empty() || !cni::Dir::exists(places.pods)) return false;
  if (entry.pod && !entry.pod->uid.empty()) return !has_folder(entry);
  const auto pods = cni::Dir::open(places.pods);
  return pods && pods->names().empty();
}

void Core::State::count_failure(const std::string& resource) {
  if (const auto pool = pool_of(resource)) ++counts[*pool].failures;
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

}  // namespace devices

#include <ctime>
#include <set>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/log.h"
#include "plugins/names/drivers.h"

// Allocate, claims, and what the kubelet lists.
namespace devices {

namespace {

using cni::cat;
using cni::Code;

// The kubelet says when a claim ends: it has the device prepared until then.
void require_no_claim(const Entry& entry) {
  if (!entry.claim) return;
  throw cni::Error(Code::kTryAgainLater,
                   cat("device '", entry.id, "' is prepared for claim '", entry.claim->str(), "'"));
}

void log_overdue(const Entry& entry) {
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

}  // namespace

std::pair<netlink::Fd, std::unique_lock<std::mutex>> Core::lock(std::chrono::milliseconds most) {
  require_ledger();
  netlink::Fd of_ledger = ledger_.lock(most);
  return {std::move(of_ledger), std::unique_lock(mutex_)};
}

Handout Core::allocate(const std::string& resource, const std::vector<std::string>& ids) {
  const auto pool = pool_of(resource);
  if (!pool) throw cni::Error(Code::kInvalidConfig, cat("allocate: no resource ", resource));
  Handout out;
  {
    const auto locks = lock();
    Count& count = counts_[*pool];
    try {
      std::vector<const Item*> items;
      for (const std::string& id : ids) items.push_back(&require(*pool, id));
      out = handout_of(pools_.pools[*pool], items, sysfs_);
      promise(*pool, items);
      for (const Item* item : items) write_info(*pool, *item);
    } catch (...) {
      ++count.failures;
      throw;
    }
    count.allocations += ids.size();
  }
  for (const std::string& id : ids) {
    log(Level::kInfo, "allocate device", {.resource = resource, .device = id});
  }
  if (allocated_) allocated_();
  return out;
}

const Item& Core::require(std::size_t pool, const std::string& id) {
  const auto found = stock_.pools[pool].find(id);
  if (found == stock_.pools[pool].end()) {
    throw cni::Error(Code::kTryAgainLater,
                     cat("allocate device '", id, "': not a device of ", counts_[pool].resource));
  }
  look_again(pool, id);
  if (!found->second.is_present) {
    throw cni::Error(Code::kTryAgainLater, cat("allocate device '", id, "': it vanished"));
  }
  return found->second;
}

// DEL may have given a link back since the last look, which changes follow after kBurst. The offer
// stays until refresh() compares it.
void Core::look_again(std::size_t pool, const std::string& id) {
  const auto known = stock_.pools[pool].find(id);
  if (known == stock_.pools[pool].end()) return;
  Item& item = known->second;
  const bool has_link = item.device && item.device->link;
  const bool needs_link =
      !item.slot && !(item.device && names::is_user_space_driver(item.device->driver));
  if (item.is_present && (has_link || !needs_link)) return;
  Stock now = look();
  const auto found = now.pools[pool].find(id);
  if (found == now.pools[pool].end()) return;
  found->second.offer = std::move(item.offer);
  item = std::move(found->second);
}

// The entry of a device that is promised to a pod. The holder stays: DEL of an earlier pod needs
// it.
Entry Core::promised(std::size_t pool, const Item& item, Entry entry) const {
  entry.resource = counts_[pool].resource;
  entry.promised = static_cast<std::int64_t>(std::time(nullptr));
  entry.pod.reset();
  entry.plugins = plugins_text(pools_.pools[pool], item, entry.plugins);
  entry.ifname = pools_.pools[pool].ifname;
  return entry;
}

// Either all entries are written, or none.
void Core::promise(std::size_t pool, const std::vector<const Item*>& items) {
  std::vector<Entry> before;
  try {
    for (const Item* item : items) {
      const std::string& id = item->offer.id;
      before.push_back(ledger_.read(id).value_or(Entry{.id = id}));
      require_no_claim(before.back());
      ledger_.put(promised(pool, *item, before.back()));
    }
  } catch (...) {
    for (const Entry& entry : before) {
      attempt("restore entry", entry.resource,
              [&] { entry.is_free() ? ledger_.remove(entry.id) : ledger_.put(entry); });
    }
    throw;
  }
}

void Core::write_info(std::size_t pool, const Item& item) const {
  if (places_.device_info.empty() || !item.device || item.device->bus != Bus::kPci) return;
  const std::string& resource = counts_[pool].resource;
  attempt("write device information", resource, [&] {
    write_device_info(places_.device_info, device_info_name(resource, item.offer.id),
                      {item.device->pci, item.device->physical_function});
  });
}

// The entry with the pod in it; nothing for a device of an earlier config that has none.
std::optional<Entry> Core::claimed(const std::string& resource, const std::string& id,
                                   const Pod& pod) {
  std::optional<Entry> entry = ledger_.read(id);
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
void Core::find_link(std::size_t pool, Entry& entry) const {
  const auto found = stock_.pools[pool].find(entry.id);
  if (entry.holder || found == stock_.pools[pool].end()) return;
  const Item& item = found->second;
  if (!item.device || !item.device->link) return;
  entry.plugins = with_link(entry.plugins, item.device->link->name);
  if (item.is_forced || item.device->kept_back.empty() || is_hardware_id(entry.id)) return;
  throw cni::Error(Code::kInvalidConfig,
                   cat("claim device '", entry.id, "': the node uses it: ", item.device->kept_back),
                   cat("\"force\" of ", counts_[pool].resource, " would offer it all the same"));
}

bool Core::concerns(const Pod& pod) {
  require_ledger();
  return entries_.concerns(pod, asks_for_none_);
}

std::vector<std::string> Core::claim(const Pod& pod, const std::vector<Owned>& owned,
                                     const std::vector<ListedClaim>& claims) {
  std::set<std::pair<std::string, std::string>> wanted;  // resource and id
  for (const Owned& one : owned) {
    if (!has_resource(one.resource)) continue;
    for (const std::string& id : one.ids) wanted.emplace(one.resource, id);
  }
  const auto locks = lock();
  std::vector<Entry> entries;
  for (const auto& [resource, id] : wanted) {
    try {
      if (auto entry = claimed(resource, id, pod)) entries.push_back(*std::move(entry));
    } catch (...) {
      if (const auto pool = pool_of(resource)) ++counts_[*pool].failures;
      throw;
    }
  }
  const auto other = entries_.find([&](const Entry& entry) {
    return !entry.claim && entry.is_of(pod) && !wanted.contains({entry.resource, entry.id});
  });
  if (other) {
    throw cni::Error(
        Code::kTryAgainLater,
        cat("claim devices for ", pod.str(), ": the kubelet does not list '", other->id,
            "', which the ledger has as the pod's"),
        "the entry is removed if the kubelet goes on not to list it, and has removed the pod");
  }
  const Entries known = entries_.all();
  dra::require_prepared(pod, claims, known);
  for (const auto& [id, entry] : known) {
    if (!entry.claim || !entry.pod || entry.pod->uid != pod.uid) continue;
    entries.push_back(entry);
    claim_again(entries.back());
  }
  std::vector<std::string> out;
  // The kubelet says it again after a power loss.
  for (const Entry& entry : entries) {
    const auto was = known.find(entry.id);
    if (was == known.end() || was->second != entry) ledger_.put_unsynced(entry);
    out.push_back(entry.id);
  }
  return out;
}

bool Core::has_unclaimed() { return entries_.find(&Entry::is_unclaimed).has_value(); }

bool Core::reconcile(const std::vector<PodDevices>& listed, const Moment& now) {
  const Listing listing(listed);
  // A kubelet that has just started has no pod before it reaches the API server.
  const bool is_list = !listed.empty();
  if (is_list) entries_.note(listed);
  const auto locks = lock();
  const Entries entries = entries_.all();
  bool is_open = false;
  for (const auto& [id, entry] : entries) {
    if (reconciler_.is_overdue(entry, now)) log_overdue(entry);
    switch (reconciler_.decide(entry, listing, now)) {
      case Fate::kStays:
        is_open |= entry.is_unclaimed();
        break;
      case Fate::kGetsPod: {
        const PodDevices* const owner = listing.owner_of(entry);
        Entry changed = entry;
        changed.pod = Pod{owner->space, owner->name};
        ledger_.put_unsynced(changed);
        break;
      }
      case Fate::kIsFree:
        if (is_list ? !has_folder(entry) : is_gone(entry)) release(entry);
        break;
    }
  }
  reconciler_.keep_only(entries);
  return is_open;
}

// Whether the kubelet keeps the pod: it removes the folder after it has heard from the API server,
// which it may not reach for hours after a boot. Until then it lists static pods at most. Later it
// starts the others from its checkpoint, without another Allocate.
bool Core::has_folder(const Entry& entry) const {
  if (places_.pods.empty() || !entry.pod) return false;
  const std::string& uid = entry.pod->uid;
  const bool is_name = !uid.empty() && uid[0] != '.' && uid.find('/') == uid.npos;
  return is_name && cni::Dir::exists(cat(places_.pods, "/", uid));
}

// Whether the pod was seen to be gone, where the kubelet lists none at all: it has removed its
// folder, or, of a pod whose UID is unknown, those of all pods.
bool Core::is_gone(const Entry& entry) const {
  if (places_.pods.empty() || !cni::Dir::exists(places_.pods)) return false;
  if (entry.pod && !entry.pod->uid.empty()) return !has_folder(entry);
  const auto pods = cni::Dir::open(places_.pods);
  return pods && pods->names().empty();
}

void Core::release(const Entry& entry) {
  ledger_.remove(entry.id);
  log(Level::kInfo, "release device",
      {.resource = entry.resource,
       .device = entry.id,
       .pod = entry.pod ? entry.pod->str() : std::string()});
  if (places_.device_info.empty()) return;
  attempt("remove device information", entry.resource, [&] {
    remove_device_info(places_.device_info, device_info_name(entry.resource, entry.id));
  });
}

}  // namespace devices

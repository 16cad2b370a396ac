#include <ctime>
#include <set>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/log.h"
#include "plugins/state/owner.h"

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

using OwnedIds = std::set<std::pair<std::string, std::string>>;  // resource and ID

// Whether an entry of the pod names a link, or is lost. A look takes milliseconds, and other
// entries name what cannot become another device's.
bool needs_look(LedgerCache& entries, const Pod& pod, const OwnedIds& wanted) {
  std::size_t known = 0;
  const auto names_link = [&](const Entry& one) {
    const bool is_wanted = wanted.contains({one.resource, one.id});
    known += is_wanted && one.is_wanted() ? 1U : 0U;
    const bool is_claims = one.claim && one.pod && one.pod->uid == pod.uid;
    return (is_wanted || is_claims) && !link_in(one.plugins).empty();
  };
  return entries.find(names_link).has_value() || known < wanted.size();
}

// What the kubelet does not list may be another pod's by now.
void require_all_listed(LedgerCache& entries, const Pod& pod, const OwnedIds& wanted) {
  const auto other = entries.find([&](const Entry& entry) {
    return !entry.claim && entry.is_of(pod) && !wanted.contains({entry.resource, entry.id});
  });
  if (!other) return;
  throw cni::Error(
      Code::kTryAgainLater,
      cat("claim devices for ", pod.str(), ": the kubelet does not list '", other->id,
          "', which the ledger has as the pod's"),
      "the entry is removed if the kubelet goes on not to list it, and has removed the pod");
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

// Whether the kubelet keeps the pod: it removes the folder after it has heard from the API server,
// which it may not reach for hours after a boot. Until then it lists static pods at most. Later it
// starts the others from its checkpoint, without another Allocate.
bool has_folder(const std::string& pods, const Entry& entry) {
  if (pods.empty() || !entry.pod) return false;
  const std::string& uid = entry.pod->uid;
  const bool is_name = !uid.empty() && uid[0] != '.' && uid.find('/') == uid.npos;
  return is_name && cni::Dir::exists(cat(pods, "/", uid));
}

// Whether the pod was seen to be gone, where the kubelet lists none at all: it has removed its
// folder, or, of a pod whose UID is unknown, those of all pods.
bool is_gone(const std::string& path, const Entry& entry) {
  if (path.empty() || !cni::Dir::exists(path)) return false;
  if (entry.pod && !entry.pod->uid.empty()) return !has_folder(path, entry);
  const auto pods = cni::Dir::open(path);
  return pods && pods->names().empty();
}

}  // namespace

std::pair<netlink::Fd, std::unique_lock<std::mutex>> Core::lock(std::chrono::milliseconds most,
                                                                bool looks) {
  require_ledger();
  netlink::Fd of_ledger = ledger_.lock(most);
  if (looks) look_again();
  return {std::move(of_ledger), std::unique_lock(mutex_)};
}

Handout Core::allocate(const std::string& resource, const std::vector<std::string>& ids) {
  const auto pool = pool_of(resource);
  if (!pool) throw cni::Error(Code::kInvalidConfig, cat("allocate: no resource ", resource));
  Handout out;
  {
    const auto locks = lock(cni::kLockDeadline, true);
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

const Item& Core::require(std::size_t pool, const std::string& id) const {
  const auto found = stock_.pools[pool].find(id);
  if (found == stock_.pools[pool].end()) {
    throw cni::Error(Code::kTryAgainLater,
                     cat("allocate device '", id, "': not a device of ", counts_[pool].resource));
  }
  if (!found->second.is_present) {
    throw cni::Error(Code::kTryAgainLater, cat("allocate device '", id, "': it vanished"));
  }
  return found->second;
}

// The entry of a device that is promised to a pod. The holder stays: DEL of an earlier pod needs
// it.
Entry Core::promised(std::size_t pool, const Item& item, const Entry& before,
                     const Moment& now) const {
  Entry out = before;
  out.resource = counts_[pool].resource;
  out.promised = static_cast<std::int64_t>(std::time(nullptr));
  out.since = now;
  out.pod.reset();
  out.plugins = plugins_text(pools_.pools[pool], item, before.plugins);
  out.ifname = pools_.pools[pool].ifname;
  return out;
}

// Either all entries are written, or none.
void Core::promise(std::size_t pool, const std::vector<const Item*>& items) {
  std::vector<Entry> before;
  const Moment now = moment_now();  // one, by which the devices of a call are known
  try {
    for (const Item* item : items) {
      const std::string& id = item->offer.id;
      before.push_back(ledger_.read(id).value_or(Entry{.id = id}));
      require_no_claim(before.back());
      ledger_.put(promised(pool, *item, before.back(), now));
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
                                   const Pod& pod, const Moment& asked) {
  std::optional<Entry> entry = ledger_.read(id);
  const auto pool = pool_of(resource);
  if (!entry && !pool) return std::nullopt;
  if (pool && (!entry || !entry->is_wanted())) {
    // The kubelet knows of an Allocate that the ledger has lost.
    entry = promised(*pool, require(*pool, id), entry.value_or(Entry{.id = id}), asked);
  }
  const bool is_open = !entry->pod || entry->pod->uid.empty() || entry->is_of(pod);
  if (entry->is_open() && entry->is_later_than(asked)) {
    throw cni::Error(Code::kTryAgainLater,
                     cat("claim device '", id, "' for ", pod.str(),
                         ": it was allocated again while the kubelet was asked"));
  }
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
  const bool is_away = entry.holder && plugins::lives(entry.holder->owner);
  if (is_away || found == stock_.pools[pool].end() || link_in(entry.plugins).empty()) return;
  const Item& item = found->second;
  if (!item.device || !item.device->link) {
    throw cni::Error(Code::kTryAgainLater,
                     cat("claim device '", entry.id, "': its link does not exist"));
  }
  // DEL of a pod whose namespace was removed gives the link its name back.
  const std::string& name = item.device->link->name;
  if (!entry.holder || entry.holder->interface != name) {
    entry.plugins = with_link(entry.plugins, name);
  }
  if (item.is_forced || item.device->kept_back.empty() || is_hardware_id(entry.id)) return;
  throw cni::Error(Code::kInvalidConfig,
                   cat("claim device '", entry.id, "': the node uses it: ", item.device->kept_back),
                   cat("\"force\" of ", counts_[pool].resource, " would offer it all the same"));
}

bool Core::concerns(const Pod& pod) {
  require_ledger();
  return entries_.concerns(pod, asks_for_none_);
}

std::vector<std::string> Core::claim(const Pod& pod, const PodDevices& listed,
                                     const Moment& asked) {
  OwnedIds wanted;
  for (const Owned& one : listed.devices) {
    if (!has_resource(one.resource)) continue;
    for (const std::string& id : one.ids) wanted.emplace(one.resource, id);
  }
  const auto locks = lock(cni::kLockDeadline, needs_look(entries_, pod, wanted));
  std::vector<Entry> entries;
  for (const auto& [resource, id] : wanted) {
    try {
      if (auto entry = claimed(resource, id, pod, asked)) entries.push_back(*std::move(entry));
    } catch (...) {
      if (const auto pool = pool_of(resource)) ++counts_[*pool].failures;
      throw;
    }
  }
  require_all_listed(entries_, pod, wanted);
  const Entries known = entries_.all();
  dra::require_prepared(pod, listed.claims, known);
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
      case Fate::kGetsTime: {
        Entry changed = entry;
        changed.since = now;
        ledger_.put_unsynced(changed);
        is_open |= entry.is_unclaimed();
        break;
      }
      case Fate::kGetsPod: {
        const PodDevices* const owner = listing.owner_of(entry);
        Entry changed = entry;
        changed.pod = Pod{owner->space, owner->name};
        ledger_.put_unsynced(changed);
        break;
      }
      case Fate::kIsFree:
        if (is_list ? !has_folder(places_.pods, entry) : is_gone(places_.pods, entry)) {
          release(entry);
        }
        break;
    }
  }
  reconciler_.keep_only(entries);
  return is_open;
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

#include "plugins/devices/agent/promises.h"

#include <utility>

namespace devices {

Listing::Listing(const std::vector<PodDevices>& listed) {
  for (const PodDevices& pod : listed) {
    for (const Owned& owned : pod.devices) {
      for (const std::string& id : owned.ids) owners_.emplace(std::pair(id, owned.resource), &pod);
    }
  }
}

// Nothing says of which resource the device of a torn entry is.
const PodDevices* Listing::owner_of(const Entry& entry) const {
  const auto found = owners_.lower_bound({entry.id, entry.resource});
  if (found == owners_.end() || found->first.first != entry.id) return nullptr;
  const bool is_same = entry.resource.empty() || found->first.second == entry.resource;
  return is_same ? found->second : nullptr;
}

// What is known of an earlier promise says nothing of this one.
Reconciler::Seen& Reconciler::look_at(const Entry& entry, const Moment& now) {
  Seen& seen = seen_.try_emplace(entry.id, Seen{entry.promised, now.boot_time}).first->second;
  if (seen.promised != entry.promised) seen = {entry.promised, now.boot_time};
  return seen;
}

Fate Reconciler::decide(const Entry& entry, const Listing& listing, const Moment& now) {
  if (entry.claim) return Fate::kStays;  // the kubelet says when it ends: NodeUnprepareResources
  Seen& seen = look_at(entry, now);
  if (const PodDevices* const owner = listing.owner_of(entry)) {
    seen.missed_since.reset();
    // A list that was asked for before Allocate may still have the device's earlier pod.
    const bool is_news = entry.promised != 0 && entry.promised < now.unix_time;
    const bool is_open = !entry.pod || (entry.pod->uid.empty() &&
                                        !entry.pod->has_name_of({owner->space, owner->name}));
    return is_news && is_open ? Fate::kGetsPod : Fate::kStays;
  }
  const bool is_foreign = entry.promise == Entry::Promise::kForeign || entry.is_holder_unreadable;
  if (entry.holder || is_foreign) {  // DEL, GC or REPAIR brings the device back first
    seen.missed_since.reset();
    return Fate::kStays;
  }
  const bool is_open = !entry.pod && entry.promised != 0;  // a torn entry says neither
  if (is_open && now.boot_time - seen.since <= kPromiseLimit) return Fate::kStays;
  if (!seen.missed_since) seen.missed_since = now.boot_time;
  if (now.boot_time - *seen.missed_since < kSecondLook) return Fate::kStays;
  seen.missed_since.reset();
  return Fate::kIsFree;
}

// Without the API server nobody knows more of such a pod.
bool Reconciler::is_overdue(const Entry& entry, const Moment& now) {
  const bool is_claimed = entry.holder || (entry.pod && !entry.pod->uid.empty());
  if (entry.promised == 0 || is_claimed) return false;
  Seen& seen = look_at(entry, now);
  return now.boot_time - seen.since >= kClaimLimit && !std::exchange(seen.is_reported, true);
}

void Reconciler::keep_only(const Entries& entries) {
  std::erase_if(seen_, [&](const auto& one) { return !entries.contains(one.first); });
}

}  // namespace devices

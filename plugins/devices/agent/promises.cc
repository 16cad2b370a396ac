#include "plugins/devices/agent/promises.h"

#include <cstdlib>

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

Fate Reconciler::decide(const Entry& entry, const Listing& listing, std::int64_t now) {
  if (entry.claim) return Fate::kStays;  // the kubelet says when it ends: NodeUnprepareResources
  if (const PodDevices* const owner = listing.owner_of(entry)) {
    missed_since_.erase(entry.id);
    // A list that was asked for before Allocate may still have the device's earlier pod.
    const bool is_news = entry.promised != 0 && entry.promised < now;
    const bool is_open = !entry.pod || (entry.pod->uid.empty() &&
                                        !entry.pod->has_name_of({owner->space, owner->name}));
    return is_news && is_open ? Fate::kGetsPod : Fate::kStays;
  }
  const bool is_foreign = entry.promise == Entry::Promise::kForeign || entry.is_holder_unreadable;
  if (entry.holder || is_foreign) {  // DEL, GC or REPAIR brings the device back first
    missed_since_.erase(entry.id);
    return Fate::kStays;
  }
  // The clock may have been set since.
  if (!entry.pod && std::abs(now - entry.promised) <= kPromiseLimit) return Fate::kStays;
  const auto [since, is_first] = missed_since_.emplace(entry.id, now);
  if (is_first || now - since->second < kSecondLook) return Fate::kStays;
  // Allocate came between the looks.
  if (entry.promised > since->second && entry.promised <= now) {
    since->second = now;
    return Fate::kStays;
  }
  missed_since_.erase(since);
  return Fate::kIsFree;
}

// Without the API server nobody knows more of such a pod.
bool Reconciler::is_overdue(const Entry& entry, std::int64_t now) {
  const bool is_claimed = entry.holder || (entry.pod && !entry.pod->uid.empty());
  if (entry.promised == 0 || is_claimed || now - entry.promised < kClaimLimit) return false;
  return std::exchange(reported_[entry.id], entry.promised) != entry.promised;
}

void Reconciler::keep_only(const Entries& entries) {
  for (auto* const memory : {&missed_since_, &reported_}) {
    std::erase_if(*memory, [&](const auto& one) { return !entries.contains(one.first); });
  }
}

}  // namespace devices

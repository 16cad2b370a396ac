#include "plugins/devices/agent/promises.h"

#include <utility>

#include "libcni/daemon/event_loop.h"

namespace devices {

namespace {

using std::chrono::milliseconds;

bool is_of_boot(const Entry& entry, const Moment& now) {
  return entry.since && entry.since->boot == now.boot;
}

// Of a promise of this boot.
milliseconds age_of(const Entry& entry, const Moment& now) {
  return milliseconds(now.boot_time - entry.since->boot_time);
}

}  // namespace

Moment moment_now() { return {boot_id(), cni::EventLoop::now().count()}; }

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
Reconciler::Seen& Reconciler::look_at(const Entry& entry) {
  Seen& seen = seen_.try_emplace(entry.id, Seen{entry.promised, entry.since}).first->second;
  if (seen.promised != entry.promised || seen.since != entry.since) {
    seen = {entry.promised, entry.since};
  }
  return seen;
}

Fate Reconciler::decide(const Entry& entry, const Listing& listing, const Moment& now) {
  if (entry.claim) return Fate::kStays;  // the kubelet says when it ends: NodeUnprepareResources
  Seen& seen = look_at(entry);
  if (entry.is_open() && !is_of_boot(entry, now)) return Fate::kGetsTime;
  if (const PodDevices* const owner = listing.owner_of(entry)) {
    seen.missed_since.reset();
    // A list that was asked for before Allocate may still have the device's earlier pod.
    const bool is_news = entry.is_open() && entry.since->boot_time < now.boot_time;
    const bool is_named = entry.pod && entry.pod->has_name_of({owner->space, owner->name});
    return is_news && !is_named ? Fate::kGetsPod : Fate::kStays;
  }
  const bool is_foreign = entry.promise == Entry::Promise::kForeign || entry.is_holder_unreadable;
  if (entry.holder || is_foreign) {  // DEL, GC or REPAIR brings the device back first
    seen.missed_since.reset();
    return Fate::kStays;
  }
  if (entry.is_unclaimed() && age_of(entry, now) <= kPromiseLimit) return Fate::kStays;
  if (!seen.missed_since) seen.missed_since = now.boot_time;
  if (milliseconds(now.boot_time - *seen.missed_since) < kSecondLook) return Fate::kStays;
  seen.missed_since.reset();
  return Fate::kIsFree;
}

// Without the API server nobody knows more of such a pod.
bool Reconciler::is_overdue(const Entry& entry, const Moment& now) {
  if (entry.holder || !entry.is_open() || !is_of_boot(entry, now)) return false;
  return age_of(entry, now) >= kClaimLimit && !std::exchange(look_at(entry).is_reported, true);
}

void Reconciler::keep_only(const Entries& entries) {
  std::erase_if(seen_, [&](const auto& one) { return !entries.contains(one.first); });
}

}  // namespace devices

#include "plugins/devices/agent/ledger_cache.h"

#include <sys/inotify.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "libcni/common/error.h"
#include "plugins/devices/agent/log.h"

namespace devices {

namespace {

// Files are renamed to their names, and removed; the result of ADD is appended to one.
constexpr std::uint32_t kEvents = IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE;

bool is_watched(cni::FolderWatch& watch, const Ledger& ledger) {
  if (watch.add(ledger.path())) return true;
  log(Level::kWarning, "watch the ledger, all of which is read each time now",
      {.error = netlink::errno_text(errno)});
  return false;
}

}  // namespace

LedgerCache::LedgerCache(const Ledger& ledger)
    : ledger_(ledger), watch_(kEvents), is_watched_(is_watched(watch_, ledger)) {}

Entries LedgerCache::all() {
  const std::lock_guard hold(mutex_);
  look();
  return entries_;
}

std::optional<Entry> LedgerCache::find(const std::function<bool(const Entry&)>& is) {
  const std::lock_guard hold(mutex_);
  look();
  for (const auto& [id, entry] : entries_) {
    if (is(entry)) return entry;
  }
  return std::nullopt;
}

void LedgerCache::note(const std::vector<PodDevices>& listed) {
  const std::lock_guard hold(mutex_);
  look();
  listed_.emplace(std::exchange(lost_, {}));
  for (const PodDevices& one : listed) {
    if (one.devices.empty() && one.claims.empty()) continue;
    listed_->insert(Pod{one.space, one.name}.str());
    for (const ListedClaim& claim : one.claims) listed_->insert(Pod{claim.space, {}}.str());
  }
}

bool LedgerCache::concerns(const Pod& pod, const IsPod& asks_for_none) {
  const auto is_its = [&](const std::optional<Pod>& one) {
    return one && (one->has_name_of(pod) || one->is(pod));
  };
  const std::lock_guard hold(mutex_);
  if (!listed_) return true;
  look();
  if (listed_->contains(pod.str())) return true;
  bool is_near = listed_->contains(Pod{pod.space, {}}.str());
  for (const auto& [id, one] : entries_) {
    is_near |= one.claim && one.claim->space == pod.space;
    const bool is_own = is_its(one.pod) || (one.holder && is_its(one.holder->pod));
    if (is_own || one.is_unclaimed() || !one.is_readable()) return true;
  }
  return is_near && !(asks_for_none && asks_for_none(pod));
}

// A claim whose entry goes may have been unprepared, or have lost it: the kubelet knows.
void LedgerCache::note_loss(const Entry& entry) {
  if (!entry.claim || !entry.pod || !listed_) return;
  for (const Pod& one : {*entry.pod, Pod{entry.claim->space, {}}}) {
    listed_->insert(one.str());
    lost_.insert(one.str());
  }
}

// Names are taken before files are read: a change in between is reported the next time.
void LedgerCache::look() {
  const auto names = watch_.take();
  if (!names || !is_whole_) {
    is_whole_ = false;
    Entries now;
    for (Entry& one : ledger_.all()) now.emplace(one.id, std::move(one));
    for (const auto& [id, before] : std::exchange(entries_, std::move(now))) {
      if (!entries_.contains(id)) note_loss(before);
    }
    is_whole_ = is_watched_;
    return;
  }
  is_whole_ = false;  // reading may fail, and the names are lost then
  for (const std::string& name : *names) {
    const auto id = Ledger::device_of(name);
    if (!id) continue;
    if (auto entry = ledger_.look(*id)) {
      entries_.insert_or_assign(*id, *std::move(entry));
    } else if (const auto lost = entries_.find(*id); lost != entries_.end()) {
      note_loss(lost->second);
      entries_.erase(lost);
    }
  }
  is_whole_ = true;
}

}  // namespace devices

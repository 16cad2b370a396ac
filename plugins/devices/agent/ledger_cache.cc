#include "plugins/devices/agent/ledger_cache.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "libcni/common/error.h"
#include "plugins/devices/agent/log.h"

namespace devices {

namespace {

using netlink::Fd;

// Files are renamed to their names, and removed; the result of ADD is appended to one.
constexpr std::uint32_t kEvents = IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE;

Fd watch(const Ledger& ledger) {
  Fd out(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!out || ::inotify_add_watch(out.get(), ledger.path().c_str(), kEvents | IN_ONLYDIR) < 0) {
    log(Level::kWarning, "watch the ledger, all of which is read each time now",
        {.error = netlink::errno_text(errno)});
    out.reset();
  }
  return out;
}

}  // namespace

LedgerCache::LedgerCache(const Ledger& ledger) : ledger_(ledger), inotify_(watch(ledger)) {}

std::vector<Entry> LedgerCache::all() {
  const std::lock_guard hold(mutex_);
  look();
  std::vector<Entry> out;
  for (const auto& [id, entry] : entries_) out.push_back(entry);
  return out;
}

std::optional<Entry> LedgerCache::find(const std::function<bool(const Entry&)>& is) {
  const std::lock_guard hold(mutex_);
  look();
  for (const auto& [id, entry] : entries_) {
    if (is(entry)) return entry;
  }
  return std::nullopt;
}

// Names are taken before files are read: a change in between is reported the next time.
void LedgerCache::look() {
  const auto names = changed_names();
  if (!names || !is_whole_) {
    is_whole_ = false;
    entries_.clear();
    for (Entry& one : ledger_.all()) entries_.emplace(one.id, std::move(one));
    is_whole_ = inotify_.get() >= 0;
    return;
  }
  is_whole_ = false;  // reading may fail, and the names are lost then
  for (const std::string& name : *names) {
    const auto id = Ledger::device_of(name);
    if (!id) continue;
    if (auto entry = ledger_.look(*id).entry) {
      entries_.insert_or_assign(*id, *std::move(entry));
    } else {
      entries_.erase(*id);
    }
  }
  is_whole_ = true;
}

// Nothing: any may have changed, because there were more events than the kernel keeps.
std::optional<std::vector<std::string>> LedgerCache::changed_names() const {
  std::vector<std::string> out;
  bool is_complete = true;
  alignas(inotify_event) std::array<char, 16384> buffer{};
  while (inotify_) {
    const ssize_t got = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(got);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const char* const name = buffer.data() + at + sizeof event;
      is_complete = is_complete && (event.mask & (IN_Q_OVERFLOW | IN_IGNORED)) == 0;
      if (event.len > 0) out.emplace_back(name, ::strnlen(name, event.len));
      at += sizeof event + event.len;
    }
  }
  return is_complete ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace devices

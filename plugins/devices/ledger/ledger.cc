#include "plugins/devices/ledger/ledger.h"

#include <algorithm>
#include <tuple>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"

namespace devices {

namespace {

using cni::cat;

constexpr const char* kLock = ".lock";
constexpr std::string_view kAsideEnd = ".new";

std::string aside_of(const std::string& id) { return cat(".", id, kAsideEnd); }

std::string mark_of(const plugins::StateOwner& owner) { return cat(".of-", owner.file_name()); }

bool is_aside(const std::string& name) {
  return name.starts_with('.') && name.ends_with(kAsideEnd);
}

}  // namespace

std::optional<Ledger> Ledger::find(const std::string& path) {
  auto dir = cni::Dir::open(path);
  if (!dir) return std::nullopt;
  return Ledger(std::move(*dir));
}

Ledger Ledger::create(const std::string& path) { return Ledger(cni::Dir::create(path, 0700)); }

netlink::Fd Ledger::lock(std::chrono::milliseconds deadline) const {
  return cni::take_lock(dir_, deadline, kLock);
}

std::optional<Entry> Ledger::read(const std::string& id) const {
  if (!is_device_id(id)) return std::nullopt;
  const auto file = dir_.read(id);
  if (!file) return std::nullopt;
  const std::string what = cat("read '", path(), "/", id, "'");
  auto entry = cni::during(what, [&] { return Entry::from(file->content); });
  if (entry && entry->id == id) return entry;
  cni::note(cat(what, ": it is no entry of the ledger, ignored"));
  return std::nullopt;
}

Ledger::Content Ledger::content() const {
  Content out;
  for (const std::string& name : dir_.names()) {
    if (!is_device_id(name)) continue;
    try {
      if (auto entry = read(name)) {
        out.entries.push_back(*std::move(entry));
      } else if (dir_.has(name)) {  // not removed meanwhile
        out.unreadable.push_back(name);
      }
    } catch (const cni::Error& e) {
      cni::note(e.what());
      out.unreadable.push_back(name);
    }
  }
  std::ranges::sort(out.entries, {},
                    [](const Entry& one) { return std::tie(one.resource, one.id); });
  return out;
}

void Ledger::put(const Entry& entry) const {
  dir_.replace_synced(entry.id, entry.text(), aside_of(entry.id));
  dir_.touch();  // the kernel's own stamps are as coarse as its clock ticks, for changed()
}

void Ledger::put_unsynced(const Entry& entry) const {
  dir_.replace(entry.id, entry.text(), aside_of(entry.id));
  dir_.touch();
}

void Ledger::put_or_remove(const Entry& entry) const {
  entry.is_free() ? remove(entry.id) : put(entry);
}

void Ledger::put_or_remove_unsynced(const Entry& entry) const {
  if (!entry.is_free()) {
    put_unsynced(entry);
  } else {
    remove_unsynced(entry.id);
  }
}

void Ledger::remove(const std::string& id) const {
  if (remove_unsynced(id)) dir_.sync();
}

bool Ledger::remove_unsynced(const std::string& id) const {
  if (!dir_.remove(id)) return false;
  dir_.touch();
  return true;
}

std::vector<std::string> Ledger::sweep() const {
  std::vector<std::string> torn;
  for (const std::string& name : dir_.names()) {
    if (is_aside(name)) dir_.remove(name);
    if (!is_device_id(name)) continue;
    try {
      if (read(name)) continue;
      if (dir_.remove(name)) torn.push_back(name);
    } catch (const cni::Error&) {
      continue;  // of a later format
    }
  }
  return torn;
}

bool Ledger::has_mark(const plugins::StateOwner& owner) const { return dir_.has(mark_of(owner)); }

void Ledger::put_mark(const plugins::StateOwner& owner) const {
  dir_.make_link(mark_of(owner), owner.container_id);
}

void Ledger::remove_mark(const plugins::StateOwner& owner) const { dir_.remove(mark_of(owner)); }

}  // namespace devices

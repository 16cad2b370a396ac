#include "plugins/devices/ledger/ledger.h"

#include <algorithm>
#include <tuple>

#include "libcni/common/error.h"
#include "libcni/common/split.h"
#include "libcni/common/undo.h"

namespace devices {

namespace {

using cni::cat;

constexpr const char* kLock = ".lock";
constexpr std::string_view kAsideEnd = ".new";

std::string aside_of(const std::string& id) { return cat(".", id, kAsideEnd); }

std::string mark_of(const StateOwner& owner) { return cat(".of-", owner.file_name()); }

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

Ledger::Content Ledger::content() const { return entries_of(dir_.names()); }

Ledger::Content Ledger::entries_of(const std::vector<std::string>& names) const {
  Content out;
  for (const std::string& name : names) {
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

bool Ledger::has_mark(const StateOwner& owner) const { return dir_.has(mark_of(owner)); }

// After a power loss the mark may be torn: it may have had any device.
std::vector<std::string> Ledger::marked(const StateOwner& owner) const {
  const auto file = dir_.read(mark_of(owner));
  if (!file) return {};
  const auto lines = cni::split(file->content, "\n");
  std::vector<std::string> out(lines.begin(), lines.end());
  const bool is_whole = file->content.ends_with('\n') && std::ranges::all_of(out, is_device_id);
  return is_whole ? out : dir_.names();
}

void Ledger::put_mark(const StateOwner& owner, const std::string& id) const {
  std::string text = cat(id, "\n");
  for (const std::string& other : marked(owner)) {
    if (other != id && is_device_id(other)) text += cat(other, "\n");
  }
  dir_.replace(mark_of(owner), text, aside_of("mark"));
}

void Ledger::remove_idle_mark(const StateOwner& owner) const {
  if (held_by(owner).empty()) dir_.remove(mark_of(owner));
}

std::vector<Entry> Ledger::held_by(const StateOwner& owner) const {
  auto out = entries_of(marked(owner)).entries;
  std::erase_if(out, [&](const Entry& one) {
    return !one.holder || !one.holder->owner.is_same_attachment(owner);
  });
  return out;
}

}  // namespace devices

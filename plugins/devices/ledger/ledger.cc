#include "plugins/devices/ledger/ledger.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "libcni/common/error.h"
#include "libcni/common/split.h"
#include "libcni/common/undo.h"

namespace devices {

namespace {

using cni::cat;

constexpr const char* kLock = ".lock";
constexpr std::string_view kAsideEnd = ".new";

constexpr std::string_view kHeld = ".held=";  // no ID has a "="

std::string aside_of(const std::string& id) { return cat(".", id, kAsideEnd); }

std::string held_of(const std::string& id) { return cat(kHeld, id); }

std::string mark_of(const StateOwner& owner) { return cat(".of-", owner.file_name()); }

bool is_aside(const std::string& name) {
  return name.starts_with('.') && name.ends_with(kAsideEnd) && !name.starts_with(kHeld);
}

// What the file has; nothing without one.
template <class T>
std::optional<T> read_file(const cni::Dir& dir, const std::string& name) {
  const auto file = dir.read(name);
  if (!file) return std::nullopt;
  const std::string what = cat("read '", dir.path(), "/", name, "'");
  auto out = cni::during(what, [&] { return T::from(file->content); });
  if (!out) cni::note(cat(what, ": it is no entry of the ledger, ignored"));
  return out;
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

std::optional<Entry> Ledger::promise_of(const std::string& id) const {
  auto out = read_file<Entry>(dir_, id);
  if (!out || out->id == id) return out;
  cni::note(cat("read '", path(), "/", id, "': it is the entry of '", out->id, "', ignored"));
  return std::nullopt;
}

std::optional<Holder> Ledger::holder_of(const std::string& id) const {
  return read_file<Holder>(dir_, held_of(id));
}

std::optional<Entry> Ledger::with_holder(const std::string& id,
                                         std::optional<Entry> promise) const {
  auto holder = holder_of(id);
  if (!holder) return promise;
  if (!promise) {
    promise = Entry{.id = id, .resource = holder->resource, .plugins = holder->plugins};
  }
  promise->take(*std::move(holder));
  return promise;
}

std::optional<Entry> Ledger::read(const std::string& id) const {
  if (!is_device_id(id)) return std::nullopt;
  return with_holder(id, promise_of(id));
}

std::optional<std::string> Ledger::device_of(const std::string& name) {
  std::string id = name.starts_with(kHeld) ? name.substr(kHeld.size()) : name;
  return is_device_id(id) ? std::optional(std::move(id)) : std::nullopt;
}

std::optional<Entry> Ledger::try_read(const std::string& id) const try {
  return read(id);
} catch (const cni::Error& e) {
  cni::note(e.what());
  return std::nullopt;
}

Ledger::Content Ledger::content() const { return entries_of(dir_.names()); }

Ledger::Content Ledger::entries_of(const std::vector<std::string>& names) const {
  std::set<std::string> ids;
  for (const std::string& name : names) {
    if (auto id = device_of(name)) ids.insert(*std::move(id));
  }
  Content out;
  for (const std::string& id : ids) {
    try {
      auto promise = promise_of(id);
      const bool is_torn = !promise && dir_.has(id);  // not removed meanwhile
      if (is_torn) out.unreadable.push_back(id);
      if (auto entry = with_holder(id, std::move(promise))) {
        out.entries.push_back(*std::move(entry));
      }
    } catch (const cni::Error& e) {
      cni::note(e.what());
      out.unreadable.push_back(id);
    }
  }
  std::ranges::sort(out.entries, {},
                    [](const Entry& one) { return std::tie(one.resource, one.id); });
  return out;
}

void Ledger::put(const Entry& entry) const {
  dir_.replace_synced(entry.id, entry.text(), aside_of(entry.id));
}

void Ledger::put_unsynced(const Entry& entry) const {
  dir_.replace(entry.id, entry.text(), aside_of(entry.id));
}

void Ledger::put_or_remove(const Entry& entry) const {
  entry.is_free() ? remove(entry.id) : put(entry);
}

void Ledger::remove(const std::string& id) const {
  if (!dir_.remove(id)) return;
  dir_.sync();
}

void Ledger::put_holder(const std::string& id, const Holder& holder) const {
  dir_.replace(held_of(id), holder.text(), aside_of(id));
}

void Ledger::add_result(const std::string& id, const std::string& result) const {
  dir_.append(held_of(id), Holder::line_of(result));
}

// The holder last: a process that is killed before has changed nothing for the next DEL. A torn
// promise stays, because nobody knows whose device it is.
void Ledger::remove_holder(const std::string& id) const {
  if (const auto promise = promise_of(id)) {
    Entry now = *promise;
    if (auto holder = holder_of(id)) now.take(*std::move(holder));
    now.holder.reset();
    if (now.is_free()) {
      dir_.remove(id);
    } else if (now != *promise) {
      put_unsynced(now);
    }
  }
  dir_.remove(held_of(id));
}

std::vector<std::string> Ledger::sweep() const {
  std::vector<std::string> torn;
  for (const std::string& name : dir_.names()) {
    if (is_aside(name)) dir_.remove(name);
    const auto id = device_of(name);
    if (!id) continue;
    try {
      const bool is_whole = name == *id ? promise_of(*id).has_value() : holder_of(*id).has_value();
      if (!is_whole && dir_.remove(name)) torn.push_back(name);
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

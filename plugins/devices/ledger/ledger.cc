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
constexpr const char* kPodsLock = ".pods.lock";
constexpr std::string_view kAsideEnd = ".new";
constexpr std::string_view kHeld = names::kDevicesHolder;

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

// A holder whose promise is lost is an entry without a pod.
std::optional<Entry> merged(const std::string& id, std::optional<Entry> promise,
                            std::optional<Holder> holder) {
  if (!holder) return promise;
  if (!promise) {
    promise = Entry{.id = id, .resource = holder->resource, .plugins = holder->plugins};
  }
  promise->take(*std::move(holder));
  return promise;
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

netlink::Fd Ledger::lock_pod(const std::string& pod) const {
  return cni::take_lock_of(pod, dir_, std::chrono::milliseconds(0), kPodsLock);
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

std::optional<Entry> Ledger::read(const std::string& id) const {
  if (!is_device_id(id)) return std::nullopt;
  return merged(id, promise_of(id), holder_of(id));
}

std::optional<std::string> Ledger::device_of(const std::string& name) {
  std::string id = name.starts_with(kHeld) ? name.substr(kHeld.size()) : name;
  return is_device_id(id) ? std::optional(std::move(id)) : std::nullopt;
}

Ledger::Look Ledger::look(const std::string& id) const {
  Look out;
  const auto part = [](bool& is_unreadable, const auto& read) -> decltype(read()) {
    try {
      return read();
    } catch (const cni::Error& e) {
      cni::note(e.what());
      is_unreadable = true;
      return std::nullopt;
    }
  };
  auto promise = part(out.is_promise_unreadable, [&] { return promise_of(id); });
  if (!promise && dir_.has(id)) out.is_promise_unreadable = true;  // not removed meanwhile
  auto holder = part(out.is_holder_unreadable, [&] { return holder_of(id); });
  out.entry = merged(id, std::move(promise), std::move(holder));
  return out;
}

Ledger::Content Ledger::content() const { return entries_of(dir_.names()); }

Ledger::Content Ledger::entries_of(const std::vector<std::string>& names) const {
  std::set<std::string> ids;
  for (const std::string& name : names) {
    if (auto id = device_of(name)) ids.insert(*std::move(id));
  }
  Content out;
  for (const std::string& id : ids) {
    Look found = look(id);
    if (found.is_promise_unreadable) out.unreadable.push_back(id);
    if (found.is_holder_unreadable) out.unreadable_holders.push_back(id);
    if (found.entry) out.entries.push_back(*std::move(found.entry));
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

// A promise that is unreadable stays, because nobody knows whose device it is.
void Ledger::remove_holder(const std::string& id) const {
  Look found = look(id);
  const bool is_known = found.entry && !found.is_promise_unreadable;
  if (is_known && found.entry->is_attached() && found.entry->is_wanted()) {
    fulfil(*found.entry);
  }
  dir_.remove(held_of(id));
  if (is_known && !found.entry->is_wanted()) dir_.remove(id);
}

// On a full disk it stays as promised, which asks for more of ADD, and not for less.
void Ledger::fulfil(const Entry& entry) const try {
  const auto before = promise_of(entry.id);
  if (before && before->promised != entry.promised) put_unsynced(entry);
} catch (const netlink::Error& e) {
  cni::note(e.what());
}

std::vector<std::string> Ledger::sweep() const {
  std::vector<std::string> torn;
  for (const std::string& name : dir_.names()) {
    if (is_aside(name)) dir_.remove(name);
    const auto id = device_of(name);
    if (!id || name == *id) continue;
    const Look found = look(*id);
    const bool is_whole = found.is_holder_unreadable || (found.entry && found.entry->holder);
    if (!is_whole && dir_.remove(name)) torn.push_back(name);
  }
  return torn;
}

std::vector<std::string> Ledger::forget_torn_promises() const {
  std::vector<std::string> torn;
  for (const std::string& id : content().unreadable) {
    try {
      if (!promise_of(id) && dir_.remove(id)) torn.push_back(id);
    } catch (const cni::Error&) {
      continue;  // of a later format
    }
  }
  return torn;
}

bool Ledger::is_complete() const { return dir_.has(names::kDevicesLedgerComplete); }

void Ledger::set_complete() const {
  dir_.publish(names::kDevicesLedgerComplete, "", aside_of("complete"));
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
  Content found = entries_of(marked(owner));
  for (const std::string& id : found.unreadable_holders) holder_of(id);  // throws
  std::erase_if(found.entries, [&](const Entry& one) {
    return !one.holder || !one.holder->owner.is_same_attachment(owner);
  });
  return std::move(found.entries);
}

}  // namespace devices

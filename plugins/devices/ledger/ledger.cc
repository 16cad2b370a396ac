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

std::optional<Entry> Ledger::look(const std::string& id) const {
  const auto part = [](bool& is_unreadable, const auto& read) -> decltype(read()) {
    try {
      return read();
    } catch (const cni::Error& e) {
      cni::note(e.what());
      is_unreadable = true;
      return std::nullopt;
    }
  };
  bool is_foreign = false, is_holder_unreadable = false;
  auto promise = part(is_foreign, [&] { return promise_of(id); });
  const bool is_torn = !promise && !is_foreign && dir_.has(id);  // not removed meanwhile
  auto holder = part(is_holder_unreadable, [&] { return holder_of(id); });
  auto out = merged(id, std::move(promise), std::move(holder));
  if (!out && (is_torn || is_foreign || is_holder_unreadable)) out = Entry{.id = id};
  if (!out) return out;
  if (is_torn) out->promise = Entry::Promise::kTorn;
  if (is_foreign) out->promise = Entry::Promise::kForeign;
  out->is_holder_unreadable = is_holder_unreadable;
  return out;
}

std::vector<Entry> Ledger::all() const { return entries_of(dir_.names()); }

std::vector<Entry> Ledger::entries_of(const std::vector<std::string>& names) const {
  std::set<std::string> ids;
  for (const std::string& name : names) {
    if (auto id = device_of(name)) ids.insert(*std::move(id));
  }
  std::vector<Entry> out;
  for (const std::string& id : ids) {
    if (auto found = look(id)) out.push_back(*std::move(found));
  }
  std::ranges::sort(out, {}, [](const Entry& one) { return std::tie(one.resource, one.id); });
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

void Ledger::remove_holder(const std::string& id) const {
  const auto found = look(id);
  if (found && found->is_readable() && found->is_attached() && found->is_wanted()) fulfil(*found);
  dir_.remove(held_of(id));
  if (found && !found->is_wanted()) dir_.remove(id);
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
    const auto found = look(*id);
    const bool is_whole = found && (found->is_holder_unreadable || found->holder);
    if (!is_whole && dir_.remove(name)) torn.push_back(name);
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
  std::vector<Entry> out = entries_of(marked(owner));
  std::erase_if(out, [&](const Entry& one) {
    if (one.is_holder_unreadable) holder_of(one.id);  // throws
    return !one.holder || !one.holder->owner.is_same_attachment(owner);
  });
  return out;
}

}  // namespace devices

#include "plugins/state/ledger.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "libcni/common/error.h"
#include "libcni/common/split.h"
#include "libcni/common/undo.h"
#include "libcni/config/json.h"
#include "netlink/types/fd.h"
#include "plugins/state/fields.h"

namespace plugins {

template <>
inline constexpr auto kFields<devices::Pod> =
    std::tuple{Field{"namespace", &devices::Pod::space}, Field{"name", &devices::Pod::name},
               Field{"uid", &devices::Pod::uid}};
template <>
inline constexpr auto kFields<devices::Moment> = std::tuple{
    Field{"boot", &devices::Moment::boot}, Field{"bootTime", &devices::Moment::boot_time}};
template <>
inline constexpr auto kFields<devices::Holder> =
    std::tuple{Field{"", &devices::Holder::owner},
               Field{"interface", &devices::Holder::interface},
               Field{"resource", &devices::Holder::resource},
               Field{"plugins", &devices::Holder::plugins},
               Field{"promised", &devices::Holder::promised},
               Field{"pod", &devices::Holder::pod},
               Field{"started", &devices::Holder::started}};
template <>
inline constexpr auto kFields<devices::Claim> =
    std::tuple{Field{"uid", &devices::Claim::uid},       Field{"namespace", &devices::Claim::space},
               Field{"name", &devices::Claim::name},     Field{"request", &devices::Claim::request},
               Field{"device", &devices::Claim::device}, Field{"share", &devices::Claim::share},
               Field{"cdi", &devices::Claim::cdi},       Field{"parts", &devices::Claim::parts},
               Field{"boot", &devices::Claim::boot}};
template <>
inline constexpr auto kFields<devices::Entry> =
    std::tuple{Field{"id", &devices::Entry::id},
               Field{"resource", &devices::Entry::resource},
               Field{"promised", &devices::Entry::promised},
               Field{"since", &devices::Entry::since},
               Field{"pod", &devices::Entry::pod},
               Field{"claim", &devices::Entry::claim},
               Field{"plugins", &devices::Entry::plugins},
               Field{"interface", &devices::Entry::ifname}};

}  // namespace plugins

namespace devices {

using cni::cat;

std::string Pod::str() const { return cat(space, "/", name); }

std::string Holder::text() const {
  return cat(plugins::json_text(*this), "\n", result.empty() ? "" : line_of(result));
}

std::optional<Holder> Holder::from(const std::string& text) {
  const auto end = text.find('\n');
  if (end == text.npos) return std::nullopt;
  auto out = plugins::from_json_text<Holder>(text.substr(0, end));
  if (!out) return std::nullopt;
  std::string rest = text.substr(end + 1);
  if (!rest.ends_with('\n')) return out;  // ADD was killed while it wrote
  rest.pop_back();
  if (cni::try_parse_json(rest).is_object()) out->result = std::move(rest);
  return out;
}

namespace {

// Another meaning of that format is unknown.
void require_claim(nlohmann::json& state) {
  const bool is_of_claim = state.is_object() && state.value("format", 0) == kClaimFormat;
  if (is_of_claim && !state.contains("claim")) plugins::refuse_content("expected a claim");
}

}  // namespace

std::string Claim::str() const { return cat(space, "/", name); }

std::string Entry::text() const {
  if (!claim) return plugins::json_text(*this);
  nlohmann::json out = plugins::fields::write(*this);
  out["format"] = kClaimFormat;
  return plugins::json_text(out);
}

std::optional<Entry> Entry::from(const std::string& text) {
  auto out =
      plugins::from_json_text<Entry>(text, {.modernize = require_claim, .newest = kClaimFormat});
  if (out && (!is_device_id(out->id) || out->resource.empty())) {
    plugins::refuse_content("expected the ID of a device and its resource");
  }
  return out;
}

const Entry* incomplete_claim(const std::vector<Entry>& entries) {
  const auto is_incomplete = [&](const Entry& entry) {
    if (!entry.claim) return false;
    const auto count = std::ranges::count_if(
        entries, [&](const Entry& one) { return one.claim && one.claim->uid == entry.claim->uid; });
    return count < entry.claim->parts;
  };
  const auto found = std::ranges::find_if(entries, is_incomplete);
  return found == entries.end() ? nullptr : &*found;
}

std::string boot_id() try {
  std::string out = netlink::read_file("/proc/sys/kernel/random/boot_id").value_or("");
  while (out.ends_with('\n')) out.pop_back();
  return out;
} catch (const netlink::Error&) {
  return {};
}

bool is_device_id(std::string_view id) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
  };
  return !id.empty() && id.size() <= kMaxId && id[0] != '.' && std::ranges::all_of(id, fits);
}

namespace {

constexpr const char* kLock = ".lock";
constexpr const char* kPodsLock = ".pods.lock";
constexpr std::string_view kAsideEnd = ".new";
constexpr std::string_view kHeld = names::kDevicesHolder;

std::string aside_of(const std::string& id) { return cat(".", id, kAsideEnd); }

std::string held_of(const std::string& id) { return cat(kHeld, id); }

std::string mark_of(const StateOwner& owner) { return cat(".of-", owner.key.tag()); }

bool is_aside(const std::string& name) {
  return name.starts_with('.') && name.ends_with(kAsideEnd) && !name.starts_with(kHeld);
}

// Its content; nothing without the file.
template <class From>
auto read_file(const cni::Dir& dir, const std::string& name, bool is_noted, const From& from)
    -> decltype(from(name)) {
  const auto file = dir.read(name);
  if (!file) return std::nullopt;
  const std::string what = cat("read '", dir.path(), "/", name, "'");
  auto out = cni::during(what, [&] { return from(file->content); });
  if (!out && is_noted) cni::note(cat(what, ": it is no entry of the ledger, ignored"));
  return out;
}

// A holder whose promise is lost is an entry without a pod.
std::optional<Entry> merged(const std::string& id, std::optional<Entry> promise,
                            std::optional<Holder> holder) {
  if (!holder) return promise;
  if (!promise) {
    promise = Entry{.id = id, .resource = holder->resource, .plugins = holder->plugins};
  }
  promise->holder = std::move(holder);
  return promise;
}

}  // namespace

std::optional<Ledger> Ledger::find(const std::string& path) {
  auto dir = cni::Dir::open(path);
  if (!dir) return std::nullopt;
  return Ledger(std::move(*dir));
}

Ledger Ledger::create(const std::string& path) { return Ledger(cni::Dir::create(path, 0700)); }

std::vector<Entry> Ledger::shown(const std::string& path) {
  auto ledger = find(path);
  if (!ledger) return {};
  ledger->is_noting_ = false;
  return ledger->all();
}

netlink::Fd Ledger::lock(std::chrono::milliseconds deadline) const {
  return cni::take_lock(dir_, deadline, kLock);
}

netlink::Fd Ledger::lock_pod(const std::string& pod) const {
  return cni::take_lock_of(pod, dir_, std::chrono::milliseconds(0), kPodsLock);
}

std::optional<Entry> Ledger::promise_of(const std::string& id) const {
  return read_file(dir_, id, is_noting_, [&](const std::string& text) {
    auto out = Entry::from(text);
    if (out && out->id != id) out.reset();  // another device's
    return out;
  });
}

std::optional<Holder> Ledger::holder_of(const std::string& id) const {
  return read_file(dir_, held_of(id), is_noting_, Holder::from);
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
  const auto part = [this](bool& is_unreadable, const auto& read) -> decltype(read()) {
    try {
      return read();
    } catch (const cni::Error& e) {
      if (is_noting_) cni::note(e.what());
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
  dir_.remove(held_of(id));
  if (found && !found->is_wanted()) dir_.remove(id);
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
    return !one.holder || one.holder->owner.key != owner.key;
  });
  return out;
}

}  // namespace devices

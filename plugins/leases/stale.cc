#include "plugins/leases/stale.h"

#include <sys/stat.h>

#include <algorithm>

#include "libcni/common/undo.h"

namespace leases {

namespace {

using cni::cat;

// File times and boot time are from clocks that are set while the system comes up.
constexpr std::time_t kClockSlack = 60;

// Whether a cache entry of libcni names a network namespace that exists and is not newer than the
// lease: names of namespaces are reused after a reboot. A missing or broken entry proves nothing.
bool names_a_living_netns(const Host& host, const std::string& name, std::time_t then) {
  const auto netns = host.cached_netns(name);
  struct stat info;  // the kernel's file of a namespace is as old as its first use
  return netns && ::stat(netns->c_str(), &info) == 0 && info.st_mtime <= then;
}

class Examiner {
 public:
  explicit Examiner(const Store& store)
      : store_(store), entries_(store.index().all()), origins_(store.index().origins()) {}

  std::span<const OwnerIndex::Entry> entries_of(const Ip& ip) const {
    return OwnerIndex::of(entries_, ip);
  }

  bool is_dead(const Ip& ip, const File& file) {
    const auto owner = owner_in(file.content);
    const bool torn = is_torn(file.content);
    if (!owner && !torn && !is_empty(file.content)) return false;  // an operator's text
    bool noted_before = false;
    for (const OwnerIndex::Entry& entry : entries_of(ip)) {
      // A bare ID may be the beginning of a torn record of whoever is noted.
      const bool its_own = !owner || owner->ifname.empty() || OwnerIndex::is_of(entry, *owner);
      if (!its_own) continue;
      const Origin origin = OwnerIndex::origin_in(origins_, entry);
      if (origin == Origin::kThisBoot || origin == Origin::kElsewhere) return false;
      noted_before = noted_before || origin == Origin::kEarlier;
    }
    // The index dates this lease to an earlier boot, so that its times need no comparison.
    if (noted_before) return !owner || !has_living_netns(*owner, file.modified);
    if (torn) return true;  // nobody writes while the lock is held
    if (!is_from_before_boot(file) || !is_own()) return false;
    if (!owner) return true;
    return is_surely_a_lease(*owner) && !has_living_netns(*owner, file.modified + kClockSlack);
  }

 private:
  bool is_from_before_boot(const File& file) {
    if (!boot_time_read_) boot_time_ = store_.host().boot_time();
    boot_time_read_ = true;
    return boot_time_ && file.modified < *boot_time_ - kClockSlack;
  }

  bool is_own() {
    if (!is_own_) is_own_ = store_.index().is_own();
    return *is_own_;
  }

  // libcni's cache names its files NETWORK-ID-IFNAME.
  bool has_living_netns(const Owner& owner, std::time_t then) {
    const std::string prefix = cat(store_.network(), "-", owner.container_id, "-");
    const Host& host = store_.host();
    if (!owner.ifname.empty()) return names_a_living_netns(host, cat(prefix, owner.ifname), then);
    if (!cached_) {
      const auto dir = Dir::open(host.cache_dir);
      cached_ = dir ? dir->names() : std::vector<std::string>();
    }
    return std::any_of(cached_->begin(), cached_->end(), [&](const std::string& name) {
      return name.starts_with(prefix) && names_a_living_netns(host, name, then);
    });
  }

  const Store& store_;
  std::vector<OwnerIndex::Entry> entries_;  // sorted by address
  OwnerIndex::Origins origins_;             // of their boots
  std::optional<std::time_t> boot_time_;
  bool boot_time_read_ = false;
  std::optional<bool> is_own_;
  std::optional<std::vector<std::string>> cached_;
};

std::string age(std::time_t seconds) {
  if (seconds < 120) return cat(std::max<std::time_t>(seconds, 0), " s");
  if (seconds < 2 * 3600) return cat(seconds / 60, " min");
  return seconds < 2 * 86400 ? cat(seconds / 3600, " h") : cat(seconds / 86400, " days");
}

std::string owner_text(const File& file) {
  const auto owner = owner_in(file.content);
  if (owner) return str(*owner);
  return is_torn(file.content) || is_empty(file.content) ? "an incomplete lease"
                                                         : "a file that is not a lease";
}

}  // namespace

bool is_empty(std::string_view content) {
  // A power loss leaves zeros where the size was written and the content was not.
  return content.find_first_not_of(std::string_view("\0 \t\r\n\v\f", 7)) == std::string_view::npos;
}

bool is_torn(std::string_view content) {
  const std::string_view text = content.substr(0, content.find_last_not_of('\0') + 1);
  const auto line_end = std::min(text.find('\r'), text.size());
  const std::string_view rest = text.substr(line_end);
  if (!owner_in(text.substr(0, line_end))) return false;
  return text.size() < content.size() || rest == "\r" || rest == "\r\n";
}

Survey survey(const Store& store, const std::vector<Ip>& ips) {
  Survey out;
  Examiner examiner(store);
  for (const Ip& ip : ips) {
    const auto file = store.read(ip);
    if (!file) {
      // A directory or link of that name: nothing of ours, left alone.
      if (store.has(ip)) out.living.push_back({ip, "not a regular file", {}, 0, {}});
      continue;
    }
    const auto entries = examiner.entries_of(ip);
    auto& list = examiner.is_dead(ip, *file) ? out.dead : out.living;
    list.push_back({ip,
                    owner_text(*file),
                    owner_named_in(file->content),
                    file->modified,
                    {entries.begin(), entries.end()}});
  }
  std::ranges::stable_sort(out.living,
                           [](const Found& a, const Found& b) { return a.modified < b.modified; });
  return out;
}

Survey reclaim(const Store& store, const std::vector<Ip>& ips) {
  Survey found = survey(store, ips);
  for (const Found& one : found.dead) {
    cni::note(cat(store.host().plugin, ": network '", store.network(), "': reclaimed stale lease ",
                  one.ip.str(), " of ", one.owner));
    store.discard(one.ip, one.entries);
  }
  if (!found.dead.empty()) store.index().prune();
  return found;
}

std::string oldest(const Survey& survey) {
  constexpr std::size_t kMax = 3;
  const std::time_t now = std::time(nullptr);
  std::string out;
  for (std::size_t i = 0; i < std::min(kMax, survey.living.size()); ++i) {
    const Found& one = survey.living[i];
    out += cat(i == 0 ? "" : "; ", one.ip.str(), " of ", one.owner, ", ", age(now - one.modified),
               " old");
  }
  return out;
}

}  // namespace leases

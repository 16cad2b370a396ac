#include "plugins/leases/index.h"

#include <algorithm>
#include <cerrno>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"

namespace leases {

namespace {

using cni::cat;

constexpr const char* kOwners = ".owners";
constexpr const char* kSeen = "seen";
constexpr const char* kSeenAside = ".seen";
constexpr std::string_view kOf = ".of.";
constexpr std::string_view kUp = "../../";
constexpr std::size_t kHashLength = 32;
// Numbers are given without gaps, but the reference, killed in the middle of a DEL, leaves some.
constexpr unsigned kMaxGap = 4;

std::string hash_of(const Owner& owner) { return cni::sha512_hex(record_of(owner), kHashLength); }

// Something else than a directory is not ours, and no reason to fail a DEL.
std::optional<Dir> directory(const Dir& dir, const std::string& name) try {
  return dir.sub(name);
} catch (const netlink::Error& e) {
  if (e.error() == ENOTDIR || e.error() == ELOOP) return std::nullopt;
  throw;
}

// vfs_symlink() in fs/namei.c; EOPNOTSUPP is cifs's.
bool has_no_links(const netlink::Error& e) { return e.error() == EPERM || e.error() == EOPNOTSUPP; }

bool is_marker(const std::string& name) { return name.find(kOf) != std::string::npos; }

std::vector<std::string> boots_in(const Dir& owners) {
  auto out = owners.names();
  std::erase_if(out, [](const std::string& name) { return name == kSeen || is_marker(name); });
  return out;
}

bool by_ip(const OwnerIndex::Entry& a, const OwnerIndex::Entry& b) { return a.ip < b.ip; }

std::optional<Ip> ip_behind(const Dir& boot_dir, const std::string& name) {
  const auto target = boot_dir.read_link(name);
  if (!target || !target->starts_with(kUp)) return std::nullopt;
  return ip_of(target->substr(kUp.size()));
}

}  // namespace

void OwnerIndex::find_in(const Dir& boot_dir, const std::string& boot, const std::string& hash,
                         std::vector<Entry>& out) {
  unsigned gap = 0;
  for (unsigned n = 0; gap < kMaxGap; ++n) {
    const std::string name = cat(hash, ".", n);
    if (const auto ip = ip_behind(boot_dir, name)) {
      out.push_back({boot, name, *ip});
      gap = 0;
    } else {
      ++gap;
    }
  }
}

std::vector<OwnerIndex::Entry> OwnerIndex::find(std::initializer_list<Owner> owners) const {
  std::vector<Entry> out;
  const auto all_owners = directory(dir_, kOwners);
  if (!all_owners) return out;
  for (const std::string& boot : boots_in(*all_owners)) {
    const auto boot_dir = directory(*all_owners, boot);
    if (!boot_dir) continue;
    for (const Owner& owner : owners) find_in(*boot_dir, boot, hash_of(owner), out);
  }
  return out;
}

std::vector<OwnerIndex::Entry> OwnerIndex::all() const {
  std::vector<Entry> out;
  const auto owners = directory(dir_, kOwners);
  if (!owners) return out;
  for (const std::string& boot : boots_in(*owners)) {
    const auto boot_dir = directory(*owners, boot);
    if (!boot_dir) continue;
    for (const std::string& name : boot_dir->names()) {
      if (const auto ip = ip_behind(*boot_dir, name)) out.push_back({boot, name, *ip});
    }
  }
  std::ranges::sort(out, by_ip);
  return out;
}

std::span<const OwnerIndex::Entry> OwnerIndex::of(const std::vector<Entry>& all, const Ip& ip) {
  const auto [begin, end] = std::equal_range(all.begin(), all.end(), Entry{{}, {}, ip}, by_ip);
  return {begin, end};
}

OwnerIndex::Origins OwnerIndex::origins() const {
  Origins out;
  const auto owners = directory(dir_, kOwners);
  if (!owners) return out;
  const std::string own = cat(kOf, host_.machine());
  const bool known = own != cat(kOf, kUnknownMachine) && host_.boot_id != kUnknownBoot;
  std::vector<std::string> markers;
  for (std::string& name : owners->names()) {
    (is_marker(name) ? markers.push_back(name) : void(out.emplace(name, Origin::kUntold)));
  }
  for (const std::string& marker : markers) {
    const auto boot = out.find(marker.substr(0, marker.find(kOf)));
    if (boot == out.end()) continue;
    boot->second = known && marker.ends_with(own) ? Origin::kEarlier : Origin::kElsewhere;
  }
  out.insert_or_assign(std::string(kEarlierBoot), Origin::kEarlier);
  out.insert_or_assign(std::string(kUnknownBoot), Origin::kElsewhere);
  out.insert_or_assign(host_.boot_id, Origin::kThisBoot);
  return out;
}

Origin OwnerIndex::origin_of(const Entry& entry) const {
  if (entry.boot == host_.boot_id) return Origin::kThisBoot;  // nothing has to be read for it
  return origin_in(origins(), entry);
}

Origin OwnerIndex::origin_in(const Origins& origins, const Entry& entry) {
  const auto found =
      origins.find(entry.boot);  // may be new: STATUS and CHECK read without the lock
  return found == origins.end() ? Origin::kElsewhere : found->second;
}

bool OwnerIndex::is_shared() const {
  const auto owners = directory(dir_, kOwners);
  if (!owners) return false;
  const auto names = owners->names();
  const std::string own = cat(kOf, host_.machine());
  return std::ranges::any_of(
      names, [&own](const std::string& name) { return is_marker(name) && !name.ends_with(own); });
}

bool OwnerIndex::is_of(const Entry& entry, const Owner& owner) {
  return entry.name.starts_with(hash_of(owner));
}

std::optional<OwnerIndex::Entry> OwnerIndex::add_to(const std::string& boot, const Owner& owner,
                                                    const Ip& ip) const try {
  const Dir owners = dir_.make_sub(kOwners);
  auto boot_dir = owners.sub(boot);
  if (!boot_dir) {
    // The machine first: a boot without one is taken for an older release's.
    if (boot == host_.boot_id) owners.make_sub(marker());
    boot_dir = owners.make_sub(boot);
  }
  const std::string hash = hash_of(owner);
  for (unsigned n = 0;; ++n) {
    std::string name = cat(hash, ".", n);
    if (boot_dir->make_link(name, cat(kUp, ip.str()))) return Entry{boot, std::move(name), ip};
  }
} catch (const netlink::Error& e) {
  if (has_no_links(e)) return std::nullopt;
  throw;
}

std::string OwnerIndex::marker() const { return cat(host_.boot_id, kOf, host_.machine()); }

void OwnerIndex::mark_machine() const {
  const auto owners = directory(dir_, kOwners);
  if (owners && directory(*owners, host_.boot_id)) owners->make_sub(marker());
}

void OwnerIndex::remove(const Entry& entry) const {
  const auto owners = directory(dir_, kOwners);
  const auto boot_dir = owners ? directory(*owners, entry.boot) : std::nullopt;
  if (boot_dir) boot_dir->remove(entry.name);
}

void OwnerIndex::prune() const {
  const auto owners = directory(dir_, kOwners);
  if (!owners) return;
  for (const auto& [boot, origin] : origins()) {
    const bool is_over = origin == Origin::kEarlier || origin == Origin::kUntold;
    if (!is_over || !directory(*owners, boot) || !owners->remove_dir(boot)) continue;
    owners->remove_dir(cat(boot, kOf, host_.machine()));
  }
}

std::string OwnerIndex::seen_now(const Dir& owners) const {
  // Below 60 bytes file systems keep a link in its inode; a block for it takes four times as long.
  constexpr std::size_t kEnough = 8;
  // The m: releases that wrote none have noted no machine.
  return cat(dir_.changed(), " ", owners.changed(host_.boot_id).value_or("-"), " ",
             host_.boot_id.substr(0, kEnough), "m");
}

bool OwnerIndex::is_complete() const {
  const auto owners = directory(dir_, kOwners);
  const auto seen = owners ? owners->read_link(kSeen) : std::nullopt;
  return seen && *seen == seen_now(*owners);
}

void OwnerIndex::mark_complete() const try {
  const auto owners = directory(dir_, kOwners);
  if (!owners || owners->read_link(kSeen) == seen_now(*owners)) return;
  dir_.touch();  // no need for it: see the class
  owners->replace_link(kSeen, seen_now(*owners), kSeenAside);
} catch (const netlink::Error& e) {
  if (!has_no_links(e)) throw;
}

void OwnerIndex::remove_left_over() const {
  const auto owners = directory(dir_, kOwners);
  if (owners && owners->read_link(kSeenAside)) owners->remove(kSeenAside);
}

}  // namespace leases

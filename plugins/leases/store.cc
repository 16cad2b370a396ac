#include "plugins/leases/store.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"

namespace leases {

namespace {

using cni::cat;

constexpr const char* kLastAside = ".last";

std::string last_name(std::size_t set) { return cat("last_reserved_ip.", set); }

// A torn write leaves nothing, or the beginning of the record, and a power loss zeros in place of
// the rest.
bool is_torn_copy(std::string_view content, std::string_view record) {
  const std::string_view text = content.substr(0, content.find_last_not_of('\0') + 1);
  return text.size() < record.size() && record.starts_with(text);
}

}  // namespace

std::optional<Store> Store::open(const std::string& data_dir, const std::string& network,
                                 Host host) {
  const auto base = Dir::open(data_dir);
  auto dir = base ? base->sub_or_link(network) : std::nullopt;
  if (!dir) return std::nullopt;
  return Store(std::move(*dir), network, std::move(host));
}

Store Store::create(const std::string& data_dir, const std::string& network, Host host) {
  const Dir base = Dir::create(data_dir);
  auto there = base.sub_or_link(network);
  return {there ? std::move(*there) : base.make_sub(network), network, std::move(host)};
}

void Store::lock(std::chrono::milliseconds deadline) { lock_ = cni::take_lock(dir_, deadline); }

std::vector<Ip> Store::used() const {
  std::vector<Ip> out;
  for (const std::string& name : dir_.names()) {
    if (const auto ip = ip_of(name)) out.push_back(*ip);
  }
  std::ranges::sort(out);
  return out;
}

bool Store::holds(const Ip& ip, const Owner& owner) const {
  const auto file = read(ip);
  return file && trimmed(file->content) == record_of(owner);
}

bool Store::reserve(const Ip& ip, const Owner& owner) const {
  if (has(ip)) return false;  // spares the common case the index entry and its removal
  // The index first: a DEL after a kill between the two finds what there is.
  const auto entry = index().add(owner, ip);
  try {
    if (dir_.publish(ip.str(), record_of(owner))) return true;
  } catch (...) {
    if (entry) index().remove(*entry);
    throw;
  }
  if (entry) index().remove(*entry);
  return false;
}

void Store::discard(const Ip& ip, std::span<const OwnerIndex::Entry> entries) const {
  dir_.remove(ip.str());
  for (const OwnerIndex::Entry& entry : entries) index().remove(entry);
}

// The reference's two passes in one: full records, and only where there is none bare container IDs.
std::vector<Ip> Store::scan(const Owner& owner) const {
  const std::string record = record_of(owner);
  std::vector<Ip> full, bare;
  for (const Ip& ip : used()) {
    const auto file = read(ip);
    const std::string_view content = file ? trimmed(file->content) : std::string_view();
    if (content == record) full.push_back(ip);
    if (content == owner.container_id) bare.push_back(ip);
  }
  return full.empty() ? bare : full;
}

std::vector<Ip> Store::owned(const Owner& owner, const std::vector<Ip>& hints) const {
  std::vector<Ip> out;
  for (const OwnerIndex::Entry& entry : index().find(owner)) {
    if (holds(entry.ip, owner)) out.push_back(entry.ip);
  }
  for (const Ip& ip : hints) {
    if (out.empty() && holds(ip, owner)) out.push_back(ip);
  }
  return out.empty() ? scan(owner) : out;
}

void Store::forget(const Ip& ip) const {
  const auto all = index().all();
  for (const OwnerIndex::Entry& entry : OwnerIndex::of(all, ip)) index().remove(entry);
}

bool Store::release_indexed(const Owner& owner) const {
  const std::string record = record_of(owner);
  const auto entries = index().find(owner);
  for (const OwnerIndex::Entry& entry : entries) {
    const auto file = read(entry.ip);
    // The beginning of a bare ID is another's.
    const bool torn = file && !owner.ifname.empty() && is_torn_copy(file->content, record);
    const bool mine = torn || (file && trimmed(file->content) == record);
    if (mine) dir_.remove(entry.ip.str());
    index().remove(entry);
    if (torn) forget(entry.ip);
  }
  if (!entries.empty()) index().prune();
  return !entries.empty();
}

bool Store::release_unindexed(const Owner& owner) const {
  const auto found = scan(owner);
  for (const Ip& ip : found) dir_.remove(ip.str());
  return !found.empty();
}

bool Store::release(const Owner& owner, const std::vector<Ip>& hints,
                    const std::function<bool()>& complete_index) const {
  const bool known = release_indexed(owner);
  release_only(owner, hints);
  remove_left_overs();
  if (known) return true;
  if (!complete_index()) return release_unindexed(owner);
  return release_indexed(owner) || release_indexed(bare(owner));
}

void Store::remove_left_overs() const {
  for (const char* name : {Dir::kAside, kLastAside}) {
    if (dir_.has(name)) dir_.remove(name);  // on a read-only disk removing nothing is refused too
  }
  index().remove_left_over();
}

void Store::release_only(const Owner& owner, const std::vector<Ip>& ips) const {
  if (ips.empty()) return;
  for (const Ip& ip : ips) {
    if (holds(ip, owner)) dir_.remove(ip.str());
  }
  for (const OwnerIndex::Entry& entry : index().find(owner)) {
    if (std::ranges::find(ips, entry.ip) != ips.end()) index().remove(entry);
  }
}

std::optional<Ip> Store::last_reserved(std::size_t set) const try {
  const auto file = dir_.read(last_name(set));
  return file ? Ip::parse(trimmed(file->content)) : std::nullopt;
} catch (const netlink::Error& e) {
  cni::note(cat(host_.plugin, ": ", e.what(), "; allocation starts at the first address"));
  return std::nullopt;
}

void Store::keep_last_reserved(std::size_t set, const Ip& ip) const noexcept try {
  const std::string name = last_name(set);
  if (!dir_.overwrite(name, ip.str())) dir_.replace(name, ip.str(), kLastAside);
} catch (const std::exception& e) {
  cni::note(e.what());
}

}  // namespace leases

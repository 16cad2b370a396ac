#include "plugins/common/masquerade_record.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "libcni/hash.h"
#include "netlink/types/error.h"

namespace plugins::nft {

namespace {

using cni::Dir;

// What stands for "not known": a target cannot be empty.
constexpr const char* kUnknown = "?";
// Far more addresses than a pod has, and as much as Dir::read_link() reads.
constexpr std::size_t kMostText = 127;

std::string text_of(const Handles& handles) {
  std::string out;
  for (const auto handle : handles) out += netlink::cat(out.empty() ? "" : ",", handle);
  return handles.empty() || out.size() > kMostText ? kUnknown : out;
}

// Empty for what text_of() does not say.
Handles handles_from(std::string_view text) {
  Handles out;
  if (text.size() > kMostText) return out;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;; ++at) {
    std::uint64_t handle = 0;
    const auto [next, error] = std::from_chars(at, end, handle);
    if (error != std::errc() || handle == 0) return {};
    out.push_back(handle);
    at = next;
    if (at == end) return out;
    if (*at != ',') return {};
  }
}

}  // namespace

MasqueradeRecord::MasqueradeRecord(std::optional<Dir> dir, const Masquerade& m)
    : dir_(std::move(dir)), name_(cni::OwnerTag(m.network, m.container_id, m.ifname).prefix()) {}

MasqueradeRecord MasqueradeRecord::find(const Masquerade& masquerade) {
  return {Dir::open(kPath), masquerade};
}

MasqueradeRecord MasqueradeRecord::create(const Masquerade& masquerade) {
  return {Dir::create(kPath), masquerade};
}

bool MasqueradeRecord::begin() const {
  if (!dir_->read_link(name_)) return true;
  dir_->remove(name_);
  dir_->make_link(name_, kUnknown);
  return false;
}

void MasqueradeRecord::keep(const Handles& handles) const {
  // Taken: by an ADD of the same attachment at the same time.
  if (!dir_->make_link(name_, text_of(handles))) begin();
}

void MasqueradeRecord::replace(const Handles& handles) const {
  remove();
  keep(handles);
}

Handles MasqueradeRecord::handles() const {
  return dir_ ? handles_from(dir_->read_link(name_).value_or(kUnknown)) : Handles{};
}

void MasqueradeRecord::remove() const {
  if (dir_) dir_->remove(name_);
}

void MasqueradeRecord::collect(const std::string& network,
                               const std::vector<cni::Attachment>& valid) {
  const auto dir = Dir::open(kPath);
  if (!dir) return;
  std::set<std::string> keep;
  for (const auto& a : valid) {
    keep.insert(cni::OwnerTag(network, a.container_id, a.ifname).prefix());
  }
  const std::string ours = cni::OwnerTag(network, "", "").network_hash + "-";
  for (const std::string& name : dir->names()) {
    if (name.starts_with(ours) && !keep.contains(name)) dir->remove(name);
  }
}

}  // namespace plugins::nft

#include "plugins/common/masquerade_record.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>

#include "libcni/common/hash.h"
#include "libcni/common/undo.h"
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

constexpr const char* kWhat = "remember the rules of ipMasq";

// ADD: the record is no reason to refuse a pod its network.
template <class Fn>
std::invoke_result_t<Fn> noting_failure(Fn&& fn) {
  return cni::noting_failure(kWhat, std::forward<Fn>(fn));
}

// DEL and GC: nor to keep its rules. But what can be tried again is an error, or the record stays.
template <class Fn>
std::invoke_result_t<Fn> noting_refusal(Fn&& fn) {
  return cni::noting_refusal(kWhat, std::forward<Fn>(fn));
}

}  // namespace

MasqueradeRecord::MasqueradeRecord(std::optional<Dir> dir, const Masquerade& m)
    : dir_(std::move(dir)), name_(cni::OwnerTag(m.network, m.container_id, m.ifname).prefix()) {}

MasqueradeRecord MasqueradeRecord::find(const Masquerade& masquerade) {
  return {noting_refusal([] { return Dir::open(kPath); }), masquerade};
}

MasqueradeRecord MasqueradeRecord::create(const Masquerade& masquerade) {
  return {noting_failure([] { return std::optional(Dir::create(kPath)); }), masquerade};
}

bool MasqueradeRecord::exists(const Masquerade& m) {
  const cni::OwnerTag tag(m.network, m.container_id, m.ifname);
  return Dir::exists(netlink::cat(kPath, "/", tag.prefix()));
}

bool MasqueradeRecord::begin() const {
  if (!dir_) return false;
  return noting_failure([&] {
    if (!dir_->read_link(name_)) return true;
    dir_->remove(name_);
    dir_->make_link(name_, kUnknown);
    return false;
  });
}

void MasqueradeRecord::keep(const Handles& handles) const {
  if (!dir_) return;
  // Taken: by an ADD of the same attachment at the same time.
  const bool is_taken = noting_failure([&] { return !dir_->make_link(name_, text_of(handles)); });
  if (is_taken) begin();
}

void MasqueradeRecord::replace(const Handles& handles) const {
  remove();
  keep(handles);
}

Handles MasqueradeRecord::handles() const {
  if (!dir_) return {};
  return noting_refusal([&] { return handles_from(dir_->read_link(name_).value_or(kUnknown)); });
}

void MasqueradeRecord::remove() const {
  if (!dir_) return;
  noting_refusal([&] { return dir_->remove(name_); });
}

void MasqueradeRecord::collect(const std::string& network,
                               const std::vector<cni::Attachment>& valid) {
  const auto dir = noting_refusal([] { return Dir::open(kPath); });
  if (!dir) return;
  std::set<std::string> keep;
  for (const auto& a : valid) {
    keep.insert(cni::OwnerTag(network, a.container_id, a.ifname).prefix());
  }
  const std::string ours = cni::OwnerTag(network, "", "").network_hash + "-";
  for (const std::string& name : noting_refusal([&] { return dir->names(); })) {
    if (!name.starts_with(ours) || keep.contains(name)) continue;
    noting_refusal([&] { return dir->remove(name); });
  }
}

}  // namespace plugins::nft

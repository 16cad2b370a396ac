#include "plugins/portmap/address_index.h"

#include <algorithm>

#include "libcni/common/split.h"
#include "netlink/types/error.h"

namespace portmap {

namespace {

constexpr std::string_view kAddressPrefix = "ip-";
constexpr std::size_t kMaxTags = 64;  // a link has at most 4,095 bytes

std::string link_name(const netlink::Ip& address) {
  return netlink::cat(kAddressPrefix, address.str());
}

std::vector<std::string> tags_in(const cni::Dir& dir, const std::string& name) {
  std::vector<std::string> out;
  const auto target = dir.read_link(name);
  if (!target) return out;
  for (const auto line : cni::split(*target, "\n")) out.emplace_back(line);
  return out;
}

}  // namespace

std::vector<std::string> AddressIndex::tags(const netlink::Ip& address) const {
  return tags_in(dir_, link_name(address));
}

void AddressIndex::put(const netlink::Ip& address, const std::string& tag) const {
  const std::string name = link_name(address);
  if (dir_.make_link(name, tag)) return;
  auto tags = tags_in(dir_, name);
  if (std::find(tags.begin(), tags.end(), tag) != tags.end()) return;
  tags.push_back(tag);
  if (tags.size() > kMaxTags) tags.erase(tags.begin());
  write(name, tags);
}

void AddressIndex::remove(const netlink::Ip& address, const std::string& tag) const {
  const std::string name = link_name(address);
  auto tags = tags_in(dir_, name);
  if (std::erase(tags, tag) != 0) write(name, tags);
}

void AddressIndex::remove_if(const std::function<bool(const std::string& tag)>& is_stale) const {
  for (const std::string& name : dir_.names()) {
    if (!name.starts_with(kAddressPrefix)) continue;
    auto tags = tags_in(dir_, name);
    if (std::erase_if(tags, is_stale) != 0 || tags.empty()) write(name, tags);
  }
}

void AddressIndex::write(const std::string& name, const std::vector<std::string>& tags) const {
  if (tags.empty()) {
    dir_.remove(name);
    return;
  }
  std::string text;
  for (const std::string& tag : tags) text += netlink::cat(text.empty() ? "" : "\n", tag);
  dir_.replace_link(name, text, cni::Dir::kAside);  // StateDir removes what a killed call left
}

}  // namespace portmap

#include "plugins/state/address_index.h"

#include <algorithm>

#include "libcni/common/split.h"
#include "netlink/types/error.h"

namespace plugins {

namespace {

constexpr std::size_t kMaxTarget = 4095;  // bytes of a symbolic link, on most file systems

}  // namespace

void AddressIndex::insert(const netlink::Ip& address, const std::string& line) const {
  const std::string name = name_of(address);
  if (dir_.make_link(name, line)) return;
  auto lines = read(name);
  if (std::ranges::find(lines, line) != lines.end()) return;
  lines.push_back(line);
  write(name, lines);
}

void AddressIndex::erase(const netlink::Ip& address, const std::string& line) const {
  const std::string name = name_of(address);
  auto lines = read(name);
  if (std::erase(lines, line) != 0) write(name, lines);
}

void AddressIndex::erase_if(const Test& is_removed) const {
  for (const std::string& name : dir_.names()) {
    if (!name.starts_with(prefix_)) continue;
    auto lines = read(name);
    if (std::erase_if(lines, is_removed) != 0 || lines.empty()) write(name, lines);
  }
}

std::string AddressIndex::name_of(const netlink::Ip& address) const {
  return netlink::cat(prefix_, address.str());
}

std::vector<std::string> AddressIndex::read(const std::string& name) const {
  std::vector<std::string> out;
  const auto target = dir_.read_link(name);
  if (!target) return out;
  for (const auto line : cni::split(*target, "\n")) out.emplace_back(line);
  return out;
}

void AddressIndex::write(const std::string& name, const std::vector<std::string>& lines) const {
  if (lines.empty()) {
    dir_.remove(name);
    return;
  }
  std::string text;
  for (const std::string& line : lines) text += netlink::cat(text.empty() ? "" : "\n", line);
  while (text.size() > kMaxTarget) text.erase(0, text.find('\n') + 1);
  dir_.replace_link(name, text, cni::Dir::kAside);
}

}  // namespace plugins

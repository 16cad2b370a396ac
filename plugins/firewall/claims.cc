#include "plugins/firewall/claims.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "libcni/common/lock.h"
#include "libcni/common/split.h"
#include "libcni/common/undo.h"
#include "plugins/names/state.h"
#include "plugins/state/address_index.h"

namespace firewall {

namespace {

using cni::cat;

constexpr const char* kPath = names::kFirewallStateDir;
// The temporary name of a list, which a killed call leaves, as Dir::kAside that of a link.
constexpr const char* kListAside = ".list";

std::string_view prefix_of(Family family) { return family == Family::kIpv4 ? "ip:" : "ip6:"; }

std::string text_of(const std::vector<Ip>& addresses) {
  std::string out;
  for (const Ip& ip : addresses) out += cat(out.empty() ? "" : " ", ip.str());
  return out;
}

}  // namespace

std::string AddressClaim::text() const {
  return cat(owner, " ", name_of(backend), zone.empty() ? "" : " ", zone);
}

std::optional<AddressClaim> AddressClaim::from(std::string_view text) {
  const auto words = cni::split(text, " ");
  if (words.size() < 2 || words[0].find('/') != std::string::npos) return std::nullopt;
  AddressClaim out{.owner = std::string(words[0]),
                   .zone = std::string(words.size() > 2 ? words[2] : "")};
  for (const Backend one : {Backend::kIptables, Backend::kFirewalld}) {
    if (words[1] != name_of(one)) continue;
    out.backend = one;
    return out;
  }
  return std::nullopt;
}

std::optional<Claims> Claims::find() {
  auto dir = cni::Dir::open(kPath);
  if (!dir) return std::nullopt;
  return Claims(std::move(*dir));
}

Claims Claims::create() { return Claims(cni::Dir::create(kPath)); }

void Claims::require_writable() const {
  if (::faccessat(dir_.fd(), ".", W_OK, AT_EACCESS) == 0) return;
  throw netlink::Error(cat("write to '", dir_.path(), "'"), errno);
}

netlink::Fd Claims::lock() const { return cni::take_lock(dir_); }

std::vector<AddressClaim> Claims::find(const Ip& ip) const {
  std::vector<AddressClaim> out;
  for (const std::string& line : plugins::AddressIndex(dir_).lines(ip)) {
    if (auto claim = AddressClaim::from(line)) out.push_back(*std::move(claim));
  }
  return out;
}

std::vector<ClaimedAddress> Claims::all() const {
  std::vector<ClaimedAddress> out;
  for (const std::string& name : dir_.names()) {
    const auto ip = Ip::parse(name);
    if (!ip) continue;
    for (AddressClaim& claim : find(*ip)) out.push_back({*ip, std::move(claim)});
  }
  return out;
}

std::vector<ClaimedAddress> Claims::of(const Attachment& attachment) const {
  const std::string owner = attachment.key.tag();
  std::vector<ClaimedAddress> out;
  auto addresses = listed(owner);
  for (const Ip& ip : attachment.addresses) {
    if (std::ranges::find(addresses, ip) == addresses.end()) addresses.push_back(ip);
  }
  for (const Ip& ip : addresses) {
    for (AddressClaim& claim : find(ip)) {
      if (claim.owner == owner) out.push_back({ip, std::move(claim)});
    }
  }
  return out;
}

void Claims::put(const Ip& ip, const AddressClaim& claim) const {
  auto addresses = listed(claim.owner);
  if (std::ranges::find(addresses, ip) == addresses.end()) {
    addresses.push_back(ip);
    write_list(claim.owner, addresses);
  }
  auto claims = find(ip);
  if (std::ranges::find(claims, claim) != claims.end()) return;
  std::erase_if(claims, [&](const AddressClaim& one) { return one.owner == claim.owner; });
  claims.push_back(claim);
  write_claims(ip, claims);
}

void Claims::remove(const Ip& ip, const std::string& owner) const {
  auto claims = find(ip);
  std::erase_if(claims, [&](const AddressClaim& one) { return one.owner == owner; });
  write_claims(ip, claims);
  strike(owner, ip);
}

bool Claims::may_have(const Attachment& attachment) const {
  return dir_.has(attachment.key.tag()) || dir_.has(cni::Dir::kAside) || dir_.has(kListAside) ||
         !of(attachment).empty();
}

void Claims::remove_list(const std::string& owner) const {
  for (const std::string& name : {owner, std::string(cni::Dir::kAside), std::string(kListAside)}) {
    dir_.remove(name);
  }
}

std::vector<std::string> Claims::owners() const {
  std::vector<std::string> out = dir_.names();
  std::erase_if(out, [](const std::string& name) { return Ip::parse(name).has_value(); });
  return out;
}

void Claims::add_handles(const std::string& owner, const std::vector<RuleHandle>& added) const {
  constexpr std::size_t kMax = 64;  // others are of rules that were removed
  if (added.empty()) return;
  cni::noting_failure("firewall", [&] {
    auto all = handles_of(owner);
    all.insert(all.end(), added.begin(), added.end());
    if (all.size() > kMax) all = added;
    std::string text = text_of(listed(owner));
    for (const auto& [family, handle] : all) text += cat(" ", prefix_of(family), handle);
    dir_.replace(owner, text, kListAside);
  });
}

std::vector<RuleHandle> Claims::handles_of(const std::string& owner) const {
  const auto file = dir_.read(owner);
  std::vector<RuleHandle> out;
  if (!file) return out;
  for (const std::string_view word : cni::split(file->content, " ")) {
    for (const Family family : netlink::kFamilies) {
      const std::string_view start = prefix_of(family);
      RuleHandle one{.family = family};
      if (!word.starts_with(start)) continue;
      const char* const end = word.data() + word.size();
      const auto parsed = std::from_chars(word.data() + start.size(), end, one.handle);
      if (parsed.ec == std::errc() && parsed.ptr == end) out.push_back(one);
    }
  }
  return out;
}

std::vector<Ip> Claims::listed(const std::string& owner) const {
  const auto file = dir_.read(owner);
  std::vector<Ip> out;
  if (!file) return out;
  for (const auto word : cni::split(file->content, " ")) {
    if (const auto ip = Ip::parse(word)) out.push_back(*ip);
  }
  return out;
}

void Claims::write_list(const std::string& owner, const std::vector<Ip>& addresses) const {
  dir_.replace(owner, text_of(addresses), kListAside);
}

void Claims::write_claims(const Ip& ip, const std::vector<AddressClaim>& claims) const {
  std::vector<std::string> lines;
  for (const AddressClaim& claim : claims) lines.push_back(claim.text());
  plugins::AddressIndex(dir_).replace(ip, lines);
}

void Claims::strike(const std::string& owner, const Ip& ip) const {
  auto addresses = listed(owner);
  if (std::erase(addresses, ip) == 0) return;
  if (addresses.empty()) {
    dir_.remove(owner);
    return;
  }
  // On a full disk DEL removes rules all the same: the list may have an address too much.
  cni::noting_failure("firewall", [&] { write_list(owner, addresses); });
}

}  // namespace firewall

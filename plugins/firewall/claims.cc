#include "plugins/firewall/claims.h"

#include "libcni/common/lock.h"

namespace firewall {

namespace {

using cni::cat;

constexpr const char* kPath = "/run/cni/firewall";
constexpr const char* kAside = ".new";

// Takes what is in front of the next space.
std::string take_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  std::string word(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace

std::string Claim::text() const {
  return cat(owner, " ", name_of(backend), zone.empty() ? "" : " ", zone);
}

std::optional<Claim> Claim::from(const std::string& text) {
  std::string_view rest = text;
  Claim out{.owner = take_word(rest)};
  const std::string backend = take_word(rest);
  out.zone = std::string(rest);
  if (out.owner.empty()) return std::nullopt;
  for (const Backend one : {Backend::kIptables, Backend::kFirewalld}) {
    if (backend != name_of(one)) continue;
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

netlink::Fd Claims::lock() const { return cni::take_lock(dir_); }

std::optional<Claim> Claims::find(const Ip& ip) const {
  const auto target = dir_.read_link(ip.str());
  return target ? Claim::from(*target) : std::nullopt;
}

std::vector<ClaimedAddress> Claims::all() const {
  std::vector<ClaimedAddress> out;
  for (const std::string& name : dir_.names()) {
    const auto ip = Ip::parse(name);
    const auto claim = ip ? find(*ip) : std::nullopt;
    if (claim) out.push_back({*ip, *claim});
  }
  return out;
}

void Claims::put(const Ip& ip, const Claim& claim) const {
  if (find(ip) == claim) return;
  dir_.replace_link(ip.str(), claim.text(), kAside);
}

void Claims::remove(const Ip& ip) const {
  dir_.remove(ip.str());
  dir_.remove(kAside);  // of a process that was killed
}

}  // namespace firewall

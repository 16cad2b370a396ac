#include "plugins/common/xtables_legacy.h"

#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <string_view>

#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace plugins {

namespace {

using netlink::cat;
using netlink::Cidr;
using netlink::Error;
using netlink::Family;
using netlink::Fd;
using netlink::Ip;

struct V4 {
  using Entry = ipt_entry;
  using Info = ipt_getinfo;
  using Entries = ipt_get_entries;
  static constexpr Family kFamily = Family::kIpv4;
  static constexpr int kDomain = AF_INET, kLevel = IPPROTO_IP;
  static constexpr int kGetInfo = IPT_SO_GET_INFO, kGetEntries = IPT_SO_GET_ENTRIES;
  static constexpr unsigned kNotSource = IPT_INV_SRCIP, kNotDestination = IPT_INV_DSTIP;
  static constexpr const char* kNames = "/proc/net/ip_tables_names";
  static const ipt_ip& match(const Entry& entry) { return entry.ip; }
};

struct V6 {
  using Entry = ip6t_entry;
  using Info = ip6t_getinfo;
  using Entries = ip6t_get_entries;
  static constexpr Family kFamily = Family::kIpv6;
  static constexpr int kDomain = AF_INET6, kLevel = IPPROTO_IPV6;
  static constexpr int kGetInfo = IP6T_SO_GET_INFO, kGetEntries = IP6T_SO_GET_ENTRIES;
  static constexpr unsigned kNotSource = IP6T_INV_SRCIP, kNotDestination = IP6T_INV_DSTIP;
  static constexpr const char* kNames = "/proc/net/ip6_tables_names";
  static const ip6t_ip6& match(const Entry& entry) { return entry.ipv6; }
};

using Blob = std::vector<unsigned char>;

template <class T>
bool fetch(const Blob& blob, std::size_t at, T& into) {
  if (at > blob.size() || blob.size() - at < sizeof into) return false;
  std::memcpy(&into, blob.data() + at, sizeof into);
  return true;
}

std::string text_at(const Blob& blob, std::size_t at, std::size_t most) {
  if (at >= blob.size()) return {};
  const auto* const text = reinterpret_cast<const char*>(blob.data() + at);
  return {text, ::strnlen(text, std::min(most, blob.size() - at))};
}

template <class Address>
std::optional<Cidr> cidr_from(const Address& address, const Address& mask) {
  unsigned char bytes[sizeof mask];
  std::memcpy(bytes, &mask, sizeof bytes);
  unsigned prefix = 0;
  for (const unsigned char byte : bytes) prefix += static_cast<unsigned>(std::popcount(byte));
  const Ip ip = Ip::from_bytes(&address, sizeof address);
  if (prefix == 0 || prefix > ip.bits()) return std::nullopt;
  return Cidr{ip, prefix};
}

// The fixed part of struct xt_entry_match and xt_entry_target: size, name, revision.
struct Extension {
  std::uint16_t size;
  char name[XT_EXTENSION_MAXNAMELEN];
  std::uint8_t revision;
  std::string str() const { return {name, ::strnlen(name, sizeof name)}; }
};
static_assert(sizeof(Extension) == sizeof(xt_entry_target));
static_assert(sizeof(Extension) == sizeof(xt_entry_match));

std::string comment_between(const Blob& blob, std::size_t at, std::size_t end) {
  Extension match;
  while (at + sizeof match <= end && fetch(blob, at, match)) {
    if (match.size < sizeof match) break;
    if (match.str() == "comment")
      return text_at(blob, at + sizeof match, match.size - sizeof match);
    at += match.size;
  }
  return {};
}

/// A rule whose jump is not yet given a name: the chain may come later.
struct Pending {
  LegacyRule rule;
  std::size_t jump = 0;
};

template <class V>
class Walk {
 public:
  Walk(const Blob& blob, std::size_t postrouting) : blob_(blob), postrouting_(postrouting) {}

  LegacyNat run() {
    typename V::Entry entry;
    while (fetch(blob_, at_, entry) && entry.next_offset >= sizeof entry) {
      if (at_ == postrouting_) chain_ = "POSTROUTING";
      read(entry);
      at_ += entry.next_offset;
    }
    for (Pending& one : pending_) {
      if (const auto found = starts_.find(one.jump); found != starts_.end()) {
        one.rule.target = found->second;
      }
      nat_.rules.push_back(std::move(one.rule));
    }
    return std::move(nat_);
  }

 private:
  void read(const typename V::Entry& entry) {
    Extension target;
    const std::size_t target_at = at_ + entry.target_offset;
    if (!fetch(blob_, target_at, target)) return;
    if (target.str() == XT_ERROR_TARGET) {  // the head of a user's chain, or the table's end
      chain_ = text_at(blob_, target_at + sizeof target, XT_FUNCTION_MAXNAMELEN);
      if (chain_ == XT_ERROR_TARGET) return;
      starts_[at_ + entry.next_offset] = chain_;
      nat_.chains.push_back(chain_);
      return;
    }
    const auto& ip = V::match(entry);
    Pending one{{chain_, cidr_from(ip.src, ip.smsk), cidr_from(ip.dst, ip.dmsk), target.str(),
                 comment_between(blob_, at_ + sizeof entry, target_at)}};
    if ((ip.invflags & V::kNotSource) != 0) one.rule.source.reset();
    if ((ip.invflags & V::kNotDestination) != 0) one.rule.destination.reset();
    int verdict = 0;  // a standard target's: an offset to jump to, or -1 - NF_*
    // The name of the standard target is "".
    // NOLINTNEXTLINE(readability-container-size-empty)
    if (target.str() == XT_STANDARD_TARGET && fetch(blob_, target_at + sizeof target, verdict)) {
      if (verdict >= 0) one.jump = static_cast<std::size_t>(verdict);
      if (verdict == -NF_ACCEPT - 1) one.rule.target = "ACCEPT";
    }
    pending_.push_back(std::move(one));
  }

  const Blob& blob_;
  std::size_t postrouting_, at_ = 0;
  std::string chain_;
  std::map<std::size_t, std::string> starts_;
  std::vector<Pending> pending_;
  LegacyNat nat_;
};

bool in_use(const char* names) {
  const auto text = netlink::read_file(names);
  return text && cat("\n", *text).find("\nnat\n") != std::string::npos;
}

template <class V>
std::optional<LegacyNat> read_nat() {
  if (!in_use(V::kNames)) return std::nullopt;
  const Fd fd(::socket(V::kDomain, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
  if (!fd) throw Error("open a socket for iptables", errno);
  // The table may grow between the two questions: EAGAIN.
  for (int attempt = 0;; ++attempt) {
    typename V::Info info{};
    std::strcpy(info.name, "nat");
    ::socklen_t size = sizeof info;
    if (::getsockopt(fd.get(), V::kLevel, V::kGetInfo, &info, &size) != 0) {
      if (errno == ENOENT) return std::nullopt;
      throw Error("read the legacy table 'nat'", errno);
    }
    Blob answer(offsetof(typename V::Entries, entrytable) + info.size);
    std::memcpy(answer.data(), "nat", 4);
    std::memcpy(answer.data() + offsetof(typename V::Entries, size), &info.size, sizeof info.size);
    size = static_cast<::socklen_t>(answer.size());
    if (::getsockopt(fd.get(), V::kLevel, V::kGetEntries, answer.data(), &size) == 0) {
      answer.erase(answer.begin(), answer.begin() + offsetof(typename V::Entries, entrytable));
      return decode_legacy_nat(V::kFamily, answer, info.hook_entry[NF_INET_POST_ROUTING]);
    }
    if (errno != EAGAIN || attempt == 10) throw Error("read the legacy table 'nat'", errno);
  }
}

}  // namespace

LegacyNat decode_legacy_nat(Family family, const Blob& entries, std::size_t postrouting) {
  if (family == Family::kIpv4) return Walk<V4>(entries, postrouting).run();
  return Walk<V6>(entries, postrouting).run();
}

std::optional<LegacyNat> read_legacy_nat(Family family) {
  return family == Family::kIpv4 ? read_nat<V4>() : read_nat<V6>();
}

}  // namespace plugins

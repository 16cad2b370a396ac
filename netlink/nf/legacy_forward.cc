#include "netlink/nf/legacy_forward.h"

#include <linux/if.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace netlink::nf {

namespace {

struct V4 {
  using Entry = ipt_entry;
  using Info = ipt_getinfo;
  using Entries = ipt_get_entries;
  static constexpr int kDomain = AF_INET, kLevel = IPPROTO_IP;
  static constexpr int kGetInfo = IPT_SO_GET_INFO, kGetEntries = IPT_SO_GET_ENTRIES;
  static constexpr const char* kNames = "/proc/net/ip_tables_names";
  static const ipt_ip& match(const Entry& entry) { return entry.ip; }
};

struct V6 {
  using Entry = ip6t_entry;
  using Info = ip6t_getinfo;
  using Entries = ip6t_get_entries;
  static constexpr int kDomain = AF_INET6, kLevel = IPPROTO_IPV6;
  static constexpr int kGetInfo = IP6T_SO_GET_INFO, kGetEntries = IP6T_SO_GET_ENTRIES;
  static constexpr const char* kNames = "/proc/net/ip6_tables_names";
  static const ip6t_ip6& match(const Entry& entry) { return entry.ipv6; }
};

using Blob = std::vector<unsigned char>;

/// A table as the kernel gives it: its entries, and where its built-in chains begin and end.
template <class V>
struct Table {
  typename V::Info info{};
  Blob entries;
};

bool in_use(const char* names, const std::string& table) {
  const std::string listed = cat("\n", read_file(names).value_or(""));
  return listed.find(cat("\n", table, "\n")) != std::string::npos;
}

template <class V>
std::optional<Table<V>> read_table(const std::string& table) {
  if (!in_use(V::kNames, table)) return std::nullopt;
  constexpr int kTries = 5;
  const Fd socket(::socket(V::kDomain, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
  if (!socket) throw Error("open a raw socket", errno);
  Table<V> out;
  for (int i = 0; i < kTries; ++i) {
    table.copy(out.info.name, sizeof out.info.name - 1);
    socklen_t size = sizeof out.info;
    if (::getsockopt(socket.get(), V::kLevel, V::kGetInfo, &out.info, &size) != 0) break;
    Blob answer(sizeof(typename V::Entries) + out.info.size);
    typename V::Entries head{};
    table.copy(head.name, sizeof head.name - 1);
    head.size = out.info.size;
    std::memcpy(answer.data(), &head, sizeof head);
    size = static_cast<socklen_t>(answer.size());
    if (::getsockopt(socket.get(), V::kLevel, V::kGetEntries, answer.data(), &size) == 0) {
      const auto start = answer.begin() + offsetof(typename V::Entries, entrytable);
      out.entries.assign(start, start + static_cast<std::ptrdiff_t>(out.info.size));
      return out;
    }
    if (errno != EAGAIN) break;  // EAGAIN: it has another size by now
  }
  throw Error(cat("read the legacy table '", table, "'"), errno);
}

template <class T>
bool fetch(const Blob& blob, std::size_t at, T& into) {
  if (at > blob.size() || blob.size() - at < sizeof into) return false;
  std::memcpy(&into, blob.data() + at, sizeof into);
  return true;
}

// The target of an entry, where it is a plain verdict: ACCEPT is -NF_ACCEPT - 1, in xt's words.
std::optional<int> verdict_at(const Blob& blob, std::size_t at, std::size_t target) {
  xt_standard_target standard{};
  if (!fetch(blob, at + target, standard)) return std::nullopt;
  if (standard.target.u.user.name[0] != '\0') return std::nullopt;  // an extension
  return standard.verdict;
}

std::string link_name(const char* name, const unsigned char* mask) {
  std::string out;
  for (std::size_t i = 0; i < IFNAMSIZ && mask[i] != 0 && name[i] != '\0'; ++i) out += name[i];
  return out;
}

template <class Address>
bool is_any(const Address& mask) {
  unsigned char bytes[sizeof mask];
  std::memcpy(bytes, &mask, sizeof mask);
  return std::all_of(bytes, bytes + sizeof mask, [](unsigned char one) { return one == 0; });
}

template <class Entry, class Match>
LegacyForward::Rule rule_of(const Entry& entry, const Match& match) {
  LegacyForward::Rule rule;
  rule.in = link_name(match.iniface, match.iniface_mask);
  rule.out = link_name(match.outiface, match.outiface_mask);
  const bool has_matches = entry.target_offset > sizeof entry;
  rule.is_narrow = has_matches || match.proto != 0 || match.invflags != 0 || !is_any(match.smsk) ||
                   !is_any(match.dmsk);
  return rule;
}

template <class V>
LegacyForward decode(const ForwardEntries& entries) {
  LegacyForward out;
  for (std::size_t at = entries.first; at <= entries.policy;) {
    typename V::Entry entry{};
    if (!fetch(entries.bytes, at, entry) || entry.next_offset == 0) break;
    const auto verdict = verdict_at(entries.bytes, at, entry.target_offset);
    if (at == entries.policy) {
      out.drops = verdict == -NF_DROP - 1;
    } else {
      auto rule = rule_of(entry, V::match(entry));
      rule.accepts = verdict == -NF_ACCEPT - 1;
      out.rules.push_back(std::move(rule));
    }
    at += entry.next_offset;
  }
  return out;
}

template <class V>
std::optional<LegacyForward> forward() {
  auto table = read_table<V>("filter");
  if (!table) return std::nullopt;
  return decode<V>({std::move(table->entries), table->info.hook_entry[NF_INET_FORWARD],
                    table->info.underflow[NF_INET_FORWARD]});
}

// An empty table has an entry for the policy of each built-in chain, and one that ends it.
template <class V>
bool has_rules(const std::string& name) {
  const auto table = read_table<V>(name);
  return table && table->info.num_entries >
                      static_cast<unsigned>(std::popcount(table->info.valid_hooks)) + 1;
}

}  // namespace

LegacyForward decode_legacy_forward(Family family, const ForwardEntries& entries) {
  return family == Family::kIpv4 ? decode<V4>(entries) : decode<V6>(entries);
}

std::optional<LegacyForward> read_legacy_forward(Family family) {
  return family == Family::kIpv4 ? forward<V4>() : forward<V6>();
}

bool has_legacy_rules(Family family, const std::string& table) {
  return family == Family::kIpv4 ? has_rules<V4>(table) : has_rules<V6>(table);
}

}  // namespace netlink::nf

#include "netlink/nf/legacy_forward.h"

#include <linux/if.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

#include "netlink/nf/legacy_table.h"

namespace netlink::nf {

namespace {

struct V4 {
  using Entry = ipt_entry;
  static const ipt_ip& match(const Entry& entry) { return entry.ip; }
};

struct V6 {
  using Entry = ip6t_entry;
  static const ip6t_ip6& match(const Entry& entry) { return entry.ipv6; }
};

using Blob = std::vector<unsigned char>;

// The target of an entry, where it is a plain verdict: ACCEPT is -NF_ACCEPT - 1, in xt's words.
std::optional<int> verdict_at(const Blob& blob, std::size_t at, std::size_t target) {
  xt_standard_target standard{};
  if (!copy_at(blob, at + target, standard)) return std::nullopt;
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

template <class Address>
std::optional<Cidr> source_of(const Address& address, const Address& mask) {
  const Ip ip = Ip::from_bytes(&address, sizeof address);
  const Ip bits = Ip::from_bytes(&mask, sizeof mask);
  unsigned prefix = 0;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    prefix += static_cast<unsigned>(std::popcount(bits.data()[i]));
  }
  if (Ip::any(ip.family()).broadcast(0).masked(prefix) != bits) return std::nullopt;
  return Cidr{ip, prefix};
}

template <class Entry, class Match>
LegacyForward::Rule rule_of(const Entry& entry, const Match& match) {
  LegacyForward::Rule rule;
  rule.in = link_name(match.iniface, match.iniface_mask);
  rule.out = link_name(match.outiface, match.outiface_mask);
  const bool has_matches = entry.target_offset > sizeof entry;
  rule.is_narrow = has_matches || match.proto != 0 || match.invflags != 0 || !is_any(match.smsk) ||
                   !is_any(match.dmsk);
  // IP6T_INV_SRCIP is the same number.
  if ((match.invflags & IPT_INV_SRCIP) == 0) rule.source = source_of(match.src, match.smsk);
  return rule;
}

template <class V>
LegacyForward decode(const ForwardEntries& entries) {
  LegacyForward out;
  for (std::size_t at = entries.first; at <= entries.policy;) {
    typename V::Entry entry{};
    if (!copy_at(entries.bytes, at, entry) || entry.next_offset == 0) break;
    const auto verdict = verdict_at(entries.bytes, at, entry.target_offset);
    if (at == entries.policy) {
      out.drops = verdict == -NF_DROP - 1;
    } else {
      auto rule = rule_of(entry, V::match(entry));
      rule.accepts = verdict == -NF_ACCEPT - 1;
      rule.returns = verdict == XT_RETURN;
      out.rules.push_back(std::move(rule));
    }
    at += entry.next_offset;
  }
  return out;
}

std::optional<LegacyForward> read_chain(Family family, const char* name, unsigned hook) {
  auto table = read_raw_legacy(family, name);
  if (!table) return std::nullopt;
  const auto [first, policy] = table->chains[hook];
  return decode_legacy_forward(family, {std::move(table->entries), first, policy});
}

}  // namespace

LegacyForward decode_legacy_forward(Family family, const ForwardEntries& entries) {
  return family == Family::kIpv4 ? decode<V4>(entries) : decode<V6>(entries);
}

std::optional<LegacyForward> read_legacy_forward(Family family) {
  return read_chain(family, "filter", NF_INET_FORWARD);
}

std::optional<LegacyForward> read_legacy_postrouting(Family family) {
  return read_chain(family, "nat", NF_INET_POST_ROUTING);
}

// An empty table has an entry for the policy of each built-in chain, and one that ends it.
bool has_legacy_rules(Family family, const std::string& table) {
  const auto raw = read_raw_legacy(family, table);
  return raw && raw->count > raw->chains.size() + 1;
}

}  // namespace netlink::nf

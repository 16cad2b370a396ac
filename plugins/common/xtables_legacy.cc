#include "plugins/common/xtables_legacy.h"

#include <linux/if.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <utility>

#include "libcni/plugin/privileges.h"
#include "netlink/nf/legacy_table.h"
#include "netlink/nf/match.h"
#include "netlink/types/error.h"

namespace plugins {

namespace {

using netlink::cat;
using netlink::Cidr;
using netlink::Family;
using netlink::Ip;
using netlink::nf::Bytes;
using netlink::nf::Cmp;
using netlink::nf::Compare;
using netlink::nf::copy_at;
using netlink::nf::Exprs;
using netlink::nf::Meta;
using netlink::nf::Rule;
using netlink::nf::Side;
using netlink::nf::TableFamily;
using netlink::nf::Unknown;
using netlink::nf::Xt;

// IP6T_INV_* are the same numbers as IPT_INV_*.
struct V4 {
  using Entry = ipt_entry;
  static const ipt_ip& match(const Entry& entry) { return entry.ip; }
  static constexpr Family kFamily = Family::kIpv4;
  static constexpr unsigned kPlainFlags = 0, kGoto = IPT_F_GOTO;
};

struct V6 {
  using Entry = ip6t_entry;
  static const ip6t_ip6& match(const Entry& entry) { return entry.ipv6; }
  static constexpr Family kFamily = Family::kIpv6;
  static constexpr unsigned kPlainFlags = IP6T_F_PROTO, kGoto = IP6T_F_GOTO;
};

using Blob = std::vector<unsigned char>;

std::string text_at(const Blob& blob, std::size_t at, std::size_t most) {
  if (at >= blob.size()) return {};
  const auto* const text = reinterpret_cast<const char*>(blob.data() + at);
  return {text, ::strnlen(text, std::min(most, blob.size() - at))};
}

// What iptables-nft would compare the address with.
template <class Address>
void put_address(Exprs& out, Side side, Compare compare, const Address (&both)[2]) {
  const Ip ip = Ip::from_bytes(&both[0], sizeof(Address));
  const Ip mask = Ip::from_bytes(&both[1], sizeof(Address));
  if (mask.is_unspecified() && compare == Compare::kEqual) return;
  unsigned prefix = 0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    prefix += static_cast<unsigned>(std::popcount(mask.data()[i]));
  }
  if (Ip::any(ip.family()).broadcast(0).masked(prefix) != mask) {
    out.emplace_back(Unknown{"mask"});
    return;
  }
  for (auto& expr : netlink::nf::address(side, compare, Cidr{ip, prefix})) {
    out.push_back(std::move(expr));
  }
}

struct LinkName {
  const char* name;
  const unsigned char* mask;  // its ones end behind the NUL, or before it where "+" stands
};

void put_link(Exprs& out, std::uint32_t key, const LinkName& link, bool inverted) {
  Bytes bytes;
  for (std::size_t i = 0; i < IFNAMSIZ && link.mask[i] != 0; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(link.name[i]));
  }
  if (bytes.empty()) return;
  out.emplace_back(Meta{.key = key});
  out.emplace_back(Cmp{inverted ? NFT_CMP_NEQ : NFT_CMP_EQ, std::move(bytes)});
}

template <class V>
void put_header(Exprs& out, const typename V::Entry& entry) {
  const auto& ip = V::match(entry);
  const auto compare = [&](unsigned flag) {
    return (ip.invflags & flag) != 0 ? Compare::kNotEqual : Compare::kEqual;
  };
  put_address(out, Side::kSource, compare(IPT_INV_SRCIP), {ip.src, ip.smsk});
  put_address(out, Side::kDestination, compare(IPT_INV_DSTIP), {ip.dst, ip.dmsk});
  put_link(out, NFT_META_IIFNAME, {ip.iniface, ip.iniface_mask},
           (ip.invflags & IPT_INV_VIA_IN) != 0);
  put_link(out, NFT_META_OIFNAME, {ip.outiface, ip.outiface_mask},
           (ip.invflags & IPT_INV_VIA_OUT) != 0);
  if (ip.proto != 0) {
    const bool inverted = (ip.invflags & IPT_INV_PROTO) != 0;
    out.emplace_back(Meta{.key = NFT_META_L4PROTO});
    out.emplace_back(
        Cmp{inverted ? NFT_CMP_NEQ : NFT_CMP_EQ, Bytes{static_cast<std::uint8_t>(ip.proto)}});
  }
  if ((ip.flags & ~(V::kPlainFlags | V::kGoto)) != 0) out.emplace_back(Unknown{"flags"});
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

Xt extension_at(const Blob& blob, std::size_t at, const Extension& head) {
  Xt out{.name = head.str(), .revision = head.revision};
  const std::size_t end = std::min(at + head.size, blob.size());
  if (at + sizeof head >= end) return out;
  out.info.assign(blob.begin() + static_cast<std::ptrdiff_t>(at + sizeof head),
                  blob.begin() + static_cast<std::ptrdiff_t>(end));
  if (out.name == "comment") out.comment = text_at(blob, at + sizeof head, out.info.size());
  return out;
}

void put_matches(Exprs& out, const Blob& blob, std::size_t at, std::size_t end) {
  Extension match;
  while (at + sizeof match <= end && copy_at(blob, at, match)) {
    if (match.size < sizeof match) break;
    out.emplace_back(extension_at(blob, at, match));
    at += match.size;
  }
}

/// A rule whose jump is not yet given a name: the chain may come later.
struct Pending {
  Rule rule;
  std::size_t jump = 0;
  bool go_to = false;
};

template <class V>
class Walk {
 public:
  Walk(const LegacyEntries& entries, const std::string& table)
      : entries_(entries), blob_(entries.bytes), table_(table) {}

  LegacyTable run() {
    typename V::Entry entry;
    while (copy_at(blob_, at_, entry) && entry.next_offset >= sizeof entry) {
      if (const auto head = entries_.heads.find(at_); head != entries_.heads.end()) {
        begin_chain(head->second);
      }
      read(entry);
      at_ += entry.next_offset;
    }
    for (Pending& one : pending_) {
      if (const auto found = starts_.find(one.jump); found != starts_.end()) {
        one.rule.exprs.emplace_back(one.go_to ? netlink::nf::go_to(found->second)
                                              : netlink::nf::jump_to(found->second));
      }
      result_.rules.push_back(std::move(one.rule));
    }
    return std::move(result_);
  }

 private:
  // A chain ends with its policy, a user's with the return.
  void begin_chain(const std::string& name) {
    if (!pending_.empty() && pending_.back().rule.chain.chain == chain_) pending_.pop_back();
    chain_ = name;
  }

  void read(const typename V::Entry& entry) {
    Extension target;
    const std::size_t target_at = at_ + entry.target_offset;
    if (!copy_at(blob_, target_at, target)) return;
    if (target.str() == XT_ERROR_TARGET) {  // the head of a user's chain, or the table's end
      const auto name = text_at(blob_, target_at + sizeof target, XT_FUNCTION_MAXNAMELEN);
      begin_chain(name);
      if (name == XT_ERROR_TARGET) return;
      starts_[at_ + entry.next_offset] = name;
      result_.chains.push_back(name);
      return;
    }
    const bool v4 = V::kFamily == Family::kIpv4;
    Pending one{{{v4 ? TableFamily::kIp : TableFamily::kIp6, table_, chain_}, {}, {}, 0}};
    put_header<V>(one.rule.exprs, entry);
    put_matches(one.rule.exprs, blob_, at_ + sizeof entry, target_at);
    one.go_to = (V::match(entry).flags & V::kGoto) != 0;
    put_target(one, target_at, target);
    pending_.push_back(std::move(one));
  }

  void put_target(Pending& one, std::size_t at, const Extension& target) {
    // The name of the standard target is "".
    // NOLINTNEXTLINE(readability-container-size-empty)
    if (target.str() != XT_STANDARD_TARGET) {
      Xt xt = extension_at(blob_, at, target);
      xt.target = true;
      one.rule.exprs.emplace_back(std::move(xt));
      return;
    }
    int verdict = 0;  // an offset to jump to, or -1 - NF_*; XT_RETURN is -1 - NF_REPEAT
    if (!copy_at(blob_, at + sizeof target, verdict)) return;
    if (verdict >= 0) {
      one.jump = static_cast<std::size_t>(verdict);
    } else {
      one.rule.exprs.emplace_back(verdict == XT_RETURN ? netlink::nf::return_verdict()
                                                       : netlink::nf::Verdict{-(verdict + 1)});
    }
  }

  const LegacyEntries& entries_;
  const Blob& blob_;
  const std::string& table_;
  std::size_t at_ = 0;
  std::string chain_;
  std::map<std::size_t, std::string> starts_;
  std::vector<Pending> pending_;
  LegacyTable result_;
};

std::map<std::size_t, std::string> heads_of(const netlink::nf::RawLegacyTable& table) {
  constexpr const char* kChains[NF_INET_NUMHOOKS] = {"PREROUTING", "INPUT", "FORWARD", "OUTPUT",
                                                     "POSTROUTING"};
  std::map<std::size_t, std::string> out;
  for (const auto& [hook, chain] : table.chains) out[chain.first] = kChains[hook];
  return out;
}

}  // namespace

bool LegacyTable::has(const std::string& chain) const {
  return std::count(chains.begin(), chains.end(), chain) != 0;
}

std::vector<Rule> LegacyTable::of(const std::string& chain) const {
  std::vector<Rule> out;
  std::copy_if(rules.begin(), rules.end(), std::back_inserter(out),
               [&](const Rule& rule) { return rule.chain.chain == chain; });
  return out;
}

void require_readable_legacy(std::string_view what) {
  if (netlink::has(netlink::Capability::kNetRaw)) return;
  const auto is_in_use = [](Family family) { return netlink::nf::legacy_in_use(family, "nat"); };
  if (!is_in_use(Family::kIpv4) && !is_in_use(Family::kIpv6)) return;
  cni::require_capabilities(cat(what, ", which reads the rules of iptables-legacy"),
                            {netlink::Capability::kNetRaw});
}

LegacyTable decode_legacy(Family family, const std::string& table, const LegacyEntries& entries) {
  if (family == Family::kIpv4) return Walk<V4>(entries, table).run();
  return Walk<V6>(entries, table).run();
}

std::optional<LegacyTable> read_legacy(Family family, const std::string& table) {
  auto raw = netlink::nf::read_raw_legacy(family, table);
  if (!raw) return std::nullopt;
  auto heads = heads_of(*raw);
  return decode_legacy(family, table, {std::move(raw->entries), std::move(heads)});
}

}  // namespace plugins

#include "plugins/portmap/table_rules.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

#include "libcni/common/error.h"
#include "netlink/nf/match.h"

namespace portmap::nft {

namespace {

using cni::cat;
using netlink::nf::Bytes;
using netlink::nf::Expr;
using netlink::nf::Exprs;
using netlink::nf::Hook;
using netlink::nf::Rule;

// After Services and NodePorts of kube-proxy at -100, before masquerading of other programs at 100.
constexpr std::int32_t kDestinationNat = -95;
constexpr std::int32_t kSourceNat = 95;
constexpr std::int32_t kBeforeFilters = -150;
constexpr const char* kMasqFrom = "masq_from";
constexpr const char* kHairpin = "hairpin";
constexpr unsigned kLoopbackPrefix = 8;
constexpr std::string_view kVersion = "rules 1";  // another number with each change of a rule

Bytes host_order(std::uint32_t value) {
  Bytes out(sizeof value);
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

// Expressions, and lists of them, one after the other.
template <class... Part>
Exprs join(Part... parts) {
  constexpr std::size_t kUsual = 8;
  Exprs out;
  out.reserve(kUsual);
  const auto append = [&out](auto& part) {
    if constexpr (std::is_same_v<decltype(part), Exprs&>) {
      std::move(part.begin(), part.end(), std::back_inserter(out));
    } else {
      out.emplace_back(std::move(part));
    }
  };
  (append(parts), ...);
  return out;
}

// An initializer list would copy its elements.
template <class... Rest>
std::vector<Exprs> in_order(Rest... rules) {
  std::vector<Exprs> out;
  out.reserve(sizeof...(rules));
  (out.push_back(std::move(rules)), ...);
  return out;
}

// The register whose first byte is that of the n-th word, as nft numbers it.
std::uint32_t reg_at(std::uint32_t word) { return word % 4 == 0 ? 1 + word / 4 : 8 + word; }

// The parts of a key in this order, each in its own registers from the first on.
struct KeyParts {
  bool address = false;                    ///< the destination's
  std::optional<unsigned> prefix = {};     ///< of the source's subnet: its first and last address
  std::optional<std::uint32_t> link = {};  ///< NFT_META_IIFNAME or NFT_META_OIFNAME
};

Bytes bytes_of(const Ip& ip) { return {ip.data(), ip.data() + ip.size()}; }

// The source's subnet of that prefix length, in the form of nft:
//   ip saddr & MASK . ip saddr | ~MASK
// First and last address, because subnets of two lengths can have the same first one.
void load_subnet(Exprs& out, Family family, unsigned prefix, std::uint32_t word) {
  const Ip any = Ip::any(family);
  const std::uint32_t offset = v4(family) ? 12 : 8;  // RFC 791, 3.1; RFC 8200, 3
  const auto length = static_cast<std::uint32_t>(any.size());
  const Bytes mask = bytes_of(any.broadcast(0).masked(prefix));
  for (const Ip& flip : {any, any.broadcast(prefix)}) {
    const std::uint32_t reg = reg_at(word);
    out.emplace_back(netlink::nf::Payload{NFT_PAYLOAD_NETWORK_HEADER, offset, length, reg});
    if (prefix < any.bits()) out.emplace_back(netlink::nf::Bitwise{mask, bytes_of(flip), reg});
    word += length / 4;
  }
}

//   ip daddr . SUBNET . iifname . meta l4proto . th dport
Exprs load_key(Family family, const KeyParts& parts) {
  Exprs out;
  std::uint32_t word = 0;
  const std::uint32_t length = v4(family) ? 4 : 16;
  if (parts.address) {
    const std::uint32_t offset = v4(family) ? 16 : 24;
    out.emplace_back(
        netlink::nf::Payload{NFT_PAYLOAD_NETWORK_HEADER, offset, length, reg_at(word)});
    word += length / 4;
  }
  if (parts.prefix) {
    load_subnet(out, family, *parts.prefix, word);
    word += length / 2;
  }
  if (parts.link) {
    out.emplace_back(netlink::nf::Meta{.key = *parts.link, .reg = reg_at(word)});
    word += IFNAMSIZ / 4;
  }
  out.emplace_back(netlink::nf::Meta{.key = NFT_META_L4PROTO, .reg = reg_at(word)});
  out.emplace_back(netlink::nf::Payload{NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, reg_at(word + 1)});
  return out;
}

//   meta mark set meta mark | BIT
Exprs set_mark(unsigned bit) {
  const std::uint32_t mark = 1U << bit;
  return join(netlink::nf::Meta{.key = NFT_META_MARK},
              netlink::nf::Bitwise{host_order(~mark), host_order(mark)},
              netlink::nf::Meta{.key = NFT_META_MARK, .set = true});
}

//   KEY @SET meta mark set meta mark | BIT
Exprs mark_if(const Layout& layout, const KeyParts& parts, const char* set) {
  return join(load_key(layout.family, parts),
              netlink::nf::Lookup{.set = cat(set, parts.address ? "_hostip" : "")},
              set_mark(layout.options.mark_bit));
}

//   dnat ip to KEY map @MAP
Exprs dnat(Family family, const KeyParts& parts, const char* map) {
  const netlink::nf::Nat nat{
      .type = NFT_NAT_DNAT,
      .family = static_cast<std::uint32_t>(v4(family) ? NFPROTO_IPV4 : NFPROTO_IPV6),
      .address_reg = 1,
      .port_reg = reg_at(v4(family) ? 1 : 4)};
  return join(load_key(family, parts), netlink::nf::Lookup{.set = map, .dreg = 1}, nat);
}

//   LOAD & MASK == VALUE, or with kNotEqual: no bit of MASK is set
Exprs has_bits(const Expr& load, std::uint32_t mask, bool wanted) {
  return join(load, netlink::nf::Bitwise{host_order(mask), host_order(0)},
              netlink::nf::Cmp{NFT_CMP_EQ, host_order(wanted ? mask : 0)});
}

Exprs loopback(netlink::nf::Side side) {
  return netlink::nf::address(side, netlink::nf::Compare::kEqual, *Cidr::parse("127.0.0.0/8"));
}

// Ports of one address precede ports of all addresses, which then do not apply, not even their
// masquerading.
std::vector<Exprs> hostports_rules(const Layout& layout) {
  std::vector<Exprs> out;
  if (!v4(layout.family)) {  // IPv6 never forwards from ::1: refused instead of lost
    const Cidr localhost = *Cidr::parse("::1/128");
    out.push_back(join(netlink::nf::address(netlink::nf::Side::kDestination,
                                            netlink::nf::Compare::kEqual, localhost),
                       netlink::nf::return_verdict()));
  }
  for (const bool address : {true, false}) {
    for (const unsigned prefix : layout.prefixes) {
      out.push_back(mark_if(layout, {.address = address, .prefix = prefix}, kMasqFrom));
    }
    if (layout.by_link) {
      out.push_back(mark_if(layout, {.address = address, .link = NFT_META_IIFNAME}, kHairpin));
    }
    out.push_back(mark_if(layout, {.address = address}, "masq_all"));
    out.push_back(dnat(layout.family, {.address = address}, address ? "ports_hostip" : "ports"));
  }
  return out;
}

//   fib daddr type local jump hostports
Exprs local_jump() {
  return join(netlink::nf::Fib{NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_DADDR},
              netlink::nf::Cmp{NFT_CMP_EQ, host_order(RTN_LOCAL)},
              netlink::nf::jump_to(kHostports));
}

// Received traffic to 127.0.0.0/8 is not redirected: route_localnet would accept it. Nor is traffic
// with a source in 127.0.0.0/8: the guard would accept the pod's answer.
std::vector<Exprs> prerouting_rules(Family family) {
  if (!v4(family)) return {};
  return in_order(join(loopback(netlink::nf::Side::kDestination), netlink::nf::return_verdict()),
                  join(loopback(netlink::nf::Side::kSource), netlink::nf::return_verdict()));
}

// The pod could not answer 127.0.0.1. Local traffic leaves by lo until it is redirected.
std::vector<Exprs> output_rules(const Layout& layout) {
  std::vector<Exprs> out;
  if (!v4(layout.family)) return out;
  const Exprs source = loopback(netlink::nf::Side::kSource);
  for (const bool address : {false, true}) {
    out.push_back(
        join(source, mark_if(layout, {.address = address, .prefix = kLoopbackPrefix}, kMasqFrom)));
    if (!layout.by_link) continue;
    out.push_back(
        join(source, mark_if(layout, {.address = address, .link = NFT_META_OIFNAME}, kHairpin)));
  }
  return out;
}

std::vector<Exprs> postrouting_rules(unsigned bit) {
  return in_order(join(has_bits(netlink::nf::Meta{.key = NFT_META_MARK}, 1U << bit, true),
                       has_bits(netlink::nf::Ct{.key = NFT_CT_STATUS}, IPS_DST_NAT, true),
                       netlink::nf::Masq{}));
}

// route_localnet accepts packets of other hosts to and from 127.0.0.0/8 (CVE-2020-8558): only those
// of redirected connections pass. Other packets of a known connection are forged, because
// connections of the node to 127.0.0.0/8 never leave lo.
std::vector<Exprs> guard_rules() {
  std::vector<Exprs> out;
  for (const auto side : {netlink::nf::Side::kDestination, netlink::nf::Side::kSource}) {
    Exprs not_lo = netlink::nf::iifname("lo");
    std::get<netlink::nf::Cmp>(not_lo[1]).op = NFT_CMP_NEQ;
    out.push_back(join(std::move(not_lo), loopback(side),
                       has_bits(netlink::nf::Ct{.key = NFT_CT_STATUS}, IPS_DST_NAT, false),
                       netlink::nf::drop()));
  }
  return out;
}

// The prefix length of a rule that looks up masq_from; nullopt for other rules.
std::optional<unsigned> prefix_in(const Exprs& exprs, Family family) {
  unsigned prefix = Ip::any(family).bits();
  for (const Expr& expr : exprs) {
    if (const auto* const mask = std::get_if<netlink::nf::Bitwise>(&expr)) {
      prefix = 0;
      for (const std::uint8_t byte : mask->mask) {
        prefix += static_cast<unsigned>(std::popcount(byte));
      }
    }
    const auto* const lookup = std::get_if<netlink::nf::Lookup>(&expr);
    if (lookup == nullptr) continue;
    const bool is_ours = lookup->set == kMasqFrom && prefix <= Ip::any(family).bits();
    return is_ours ? std::optional(prefix) : std::nullopt;
  }
  return std::nullopt;
}

bool looks_up(const Exprs& exprs, std::string_view set) {
  return std::any_of(exprs.begin(), exprs.end(), [&](const Expr& expr) {
    const auto* const lookup = std::get_if<netlink::nf::Lookup>(&expr);
    return lookup != nullptr && lookup->set == set;
  });
}

}  // namespace

std::vector<StaticChain> chains_of(const Layout& layout) {
  const Family family = layout.family;
  const unsigned bit = layout.options.mark_bit;
  std::vector<StaticChain> out;
  out.push_back({kHostports, {}, hostports_rules(layout)});
  out.push_back({"prerouting", Hook{"nat", NF_INET_PRE_ROUTING, kDestinationNat},
                 prerouting_rules(family), true});
  out.push_back(
      {"output", Hook{"nat", NF_INET_LOCAL_OUT, kDestinationNat}, output_rules(layout), true});
  out.push_back(
      {kPostrouting, Hook{"nat", NF_INET_POST_ROUTING, kSourceNat}, postrouting_rules(bit)});
  if (v4(family)) {
    out.push_back({"guard", Hook{"filter", NF_INET_LOCAL_IN, kBeforeFilters}, guard_rules()});
  }
  if (!layout.options.conditions(family).empty()) return out;
  for (StaticChain& chain : out) {
    if (chain.jumps) chain.rules.push_back(local_jump());
  }
  return out;
}

Summary::Summary(const Layout& layout) : prefixes(layout.prefixes) {
  for (const StaticChain& chain : chains_of(layout)) {
    if (chain.name == std::string_view(kPostrouting)) continue;
    uses[chain.name] += static_cast<std::uint32_t>(chain.rules.size());
    if (chain.jumps) ++uses[kHostports];
  }
}

std::optional<Summary> Summary::parse(std::string_view comment) {
  if (!comment.starts_with(kVersion)) return std::nullopt;
  comment.remove_prefix(kVersion.size());
  Summary out;
  std::string chain;  // whose number comes next
  while (comment.starts_with(' ')) {
    comment.remove_prefix(1);
    std::string_view word = comment.substr(0, comment.find(' '));
    comment.remove_prefix(word.size());
    const bool is_prefix = word.starts_with('/');
    if (is_prefix) word.remove_prefix(1);
    if (!is_prefix && chain.empty()) {
      if (word.empty()) return std::nullopt;
      chain = word;
      continue;
    }
    unsigned number = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
    if (read.ec != std::errc() || read.ptr != word.data() + word.size()) return std::nullopt;
    if (is_prefix) {
      out.prefixes.insert(number);
    } else {
      out.uses[std::exchange(chain, {})] = number;
    }
  }
  if (!comment.empty() || !chain.empty() || out.uses.empty()) return std::nullopt;
  return out;
}

std::string Summary::str() const {
  std::string out(kVersion);
  for (const unsigned prefix : prefixes) out += cat(" /", prefix);
  for (const auto& [chain, count] : uses) out += cat(" ", chain, " ", count);
  return out;
}

Layout layout_in(const std::vector<Rule>& rules, Family family, const Options& options) {
  Layout out{family, options};
  for (const Rule& rule : rules) {
    if (rule.chain.chain != kHostports) continue;
    if (const auto prefix = prefix_in(rule.exprs, family)) out.prefixes.insert(*prefix);
    out.by_link = out.by_link || looks_up(rule.exprs, kHairpin);
  }
  return out;
}

}  // namespace portmap::nft

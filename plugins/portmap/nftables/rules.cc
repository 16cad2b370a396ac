#include "plugins/portmap/nftables/rules.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>

#include <charconv>
#include <iterator>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "libcni/common/error.h"
#include "netlink/attributes.h"
#include "netlink/nf/match.h"
#include "plugins/portmap/nftables/table.h"

namespace portmap::nft {

namespace {

namespace nf = netlink::nf;
using cni::cat;

// kube-proxy has Services and NodePorts at -100, and other programs masquerade at 100.
constexpr std::int32_t kDestinationNat = -95;
constexpr std::int32_t kSourceNat = 95;
constexpr std::int32_t kBeforeFilters = -150;
constexpr unsigned kLoopbackPrefix = 8;

bool is_v4(Family family) { return family == Family::kIpv4; }

// Expressions, and lists of them, one after the other.
template <class... Part>
nf::Exprs join(Part... parts) {
  constexpr std::size_t kUsual = 8;
  nf::Exprs out;
  out.reserve(kUsual);
  const auto append = [&out](auto& part) {
    if constexpr (std::is_same_v<decltype(part), nf::Exprs&>) {
      std::ranges::move(part, std::back_inserter(out));
    } else {
      out.emplace_back(std::move(part));
    }
  };
  (append(parts), ...);
  return out;
}

// The register whose first byte is that of the n-th word, as nft numbers it.
std::uint32_t reg_at(std::uint32_t word) { return word % 4 == 0 ? 1 + word / 4 : 8 + word; }

nf::Bytes bytes_of(const Ip& ip) { return {ip.data(), ip.data() + ip.size()}; }

// The source's subnet of that prefix length, in the form of nft:
//   ip saddr & MASK . ip saddr | ~MASK
// First and last address, because subnets of two lengths can have the same first one.
void load_subnet(nf::Exprs& out, Family family, unsigned prefix, std::uint32_t word) {
  const Ip any = Ip::any(family);
  const std::uint32_t offset = is_v4(family) ? 12 : 8;  // RFC 791, 3.1; RFC 8200, 3
  const auto length = static_cast<std::uint32_t>(any.size());
  const nf::Bytes mask = bytes_of(any.broadcast(0).masked(prefix));
  for (const Ip& flip : {any, any.broadcast(prefix)}) {
    const std::uint32_t reg = reg_at(word);
    out.emplace_back(nf::Payload{NFT_PAYLOAD_NETWORK_HEADER, offset, length, reg});
    if (prefix < any.bits()) out.emplace_back(nf::Bitwise{mask, bytes_of(flip), reg});
    word += length / 4;
  }
}

/// The parts of a key before protocol and port.
struct KeyParts {
  bool address = false;                 ///< the destination's
  std::optional<unsigned> prefix = {};  ///< of the source's subnet: its first and last address
};

//   ip daddr . SUBNET . meta l4proto . th dport
nf::Exprs load_key(Family family, const KeyParts& parts) {
  nf::Exprs out;
  std::uint32_t word = 0;
  const std::uint32_t length = is_v4(family) ? 4 : 16;
  if (parts.address) {
    const std::uint32_t offset = is_v4(family) ? 16 : 24;
    out.emplace_back(nf::Payload{NFT_PAYLOAD_NETWORK_HEADER, offset, length, reg_at(word)});
    word += length / 4;
  }
  if (parts.prefix) {
    load_subnet(out, family, *parts.prefix, word);
    word += length / 2;
  }
  out.emplace_back(nf::Meta{.key = NFT_META_L4PROTO, .reg = reg_at(word)});
  out.emplace_back(nf::Payload{NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, reg_at(word + 1)});
  return out;
}

//   KEY @masq_from meta mark set meta mark | BIT
nf::Exprs mark_if(const Layout& layout, bool address, unsigned prefix) {
  const std::uint32_t mark = 1U << layout.options.mark_bit;
  return join(load_key(layout.family, {address, prefix}),
              nf::Lookup{.set = address ? "masq_from_hostip" : "masq_from"},
              nf::Meta{.key = NFT_META_MARK},
              nf::Bitwise{nf::host_order(~mark), nf::host_order(mark)},
              nf::Meta{.key = NFT_META_MARK, .set = true});
}

//   dnat ip to KEY map @MAP
nf::Exprs dnat(Family family, bool address) {
  const nf::Nat nat{
      .type = NFT_NAT_DNAT,
      .family = static_cast<std::uint32_t>(is_v4(family) ? NFPROTO_IPV4 : NFPROTO_IPV6),
      .address_reg = 1,
      .port_reg = reg_at(is_v4(family) ? 1 : 4)};
  return join(load_key(family, {.address = address}),
              nf::Lookup{.set = address ? "ports_hostip" : "ports", .dreg = 1}, nat);
}

//   LOAD & MASK == VALUE, or with kNotEqual: no bit of MASK is set
nf::Exprs has_bits(const nf::Expr& load, std::uint32_t mask, bool wanted) {
  return join(load, nf::Bitwise{nf::host_order(mask), nf::host_order(0)},
              nf::Cmp{NFT_CMP_EQ, nf::host_order(wanted ? mask : 0)});
}

nf::Exprs is_in(nf::Side side, const char* cidr) {
  return nf::address(side, nf::Compare::kEqual, *Cidr::parse(cidr));
}

nf::Exprs loopback(nf::Side side) { return is_in(side, "127.0.0.0/8"); }

//   fib daddr type local jump hostports
// With conditions the jump leads to them, and they to hostports.
nf::Exprs jump_to_ports(const Layout& layout) {
  if (layout.has_conditions()) return join(nf::jump_to(kConditions));
  return join(nf::Fib{NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_DADDR},
              nf::Cmp{NFT_CMP_EQ, nf::host_order(RTN_LOCAL)}, nf::jump_to(kHostports));
}

// Ports of one address precede ports of all addresses, which then do not apply, not even their
// masquerading. IPv6 never forwards from ::1: refused instead of lost.
void put_hostports(const Layout& layout, TableChain& chain) {
  if (!is_v4(layout.family)) {
    chain.add(join(is_in(nf::Side::kDestination, "::1/128"), nf::return_verdict()));
  }
  for (const bool address : {true, false}) {
    for (const unsigned prefix : layout.prefixes) {
      chain.add(mark_if(layout, address, prefix), cat("/", prefix));
    }
    chain.add(dnat(layout.family, address));
  }
}

// Received traffic to 127.0.0.0/8 is not redirected: route_localnet would accept it. Nor is traffic
// with a source in 127.0.0.0/8: the guard would accept the pod's answer.
void put_prerouting(const Layout& layout, TableChain& chain) {
  for (const nf::Side side : {nf::Side::kDestination, nf::Side::kSource}) {
    if (is_v4(layout.family)) chain.add(join(loopback(side), nf::return_verdict()));
  }
  chain.add(jump_to_ports(layout));
}

// The pod could not answer 127.0.0.1.
void put_output(const Layout& layout, TableChain& chain) {
  for (const bool address : {false, true}) {
    if (!is_v4(layout.family)) break;
    chain.add(join(loopback(nf::Side::kSource), mark_if(layout, address, kLoopbackPrefix)));
  }
  chain.add(jump_to_ports(layout));
}

void put_postrouting(const Layout& layout, TableChain& chain) {
  const std::uint32_t mark = 1U << layout.options.mark_bit;
  chain.add(join(has_bits(nf::Meta{.key = NFT_META_MARK}, mark, true),
                 has_bits(nf::Ct{.key = NFT_CT_STATUS}, IPS_DST_NAT, true), nf::Masq{}));
}

// route_localnet accepts packets of other hosts to and from 127.0.0.0/8 (CVE-2020-8558): only those
// of redirected connections pass. Other packets of a known connection are forged, because
// connections of the node to 127.0.0.0/8 never leave lo.
void put_guard(TableChain& chain) {
  for (const auto side : {nf::Side::kDestination, nf::Side::kSource}) {
    nf::Exprs not_lo = nf::iifname("lo");
    std::get<nf::Cmp>(not_lo[1]).op = NFT_CMP_NEQ;
    chain.add(join(std::move(not_lo), loopback(side),
                   has_bits(nf::Ct{.key = NFT_CT_STATUS}, IPS_DST_NAT, false), nf::drop()));
  }
}

}  // namespace

std::vector<TableChain> chains_of(const Layout& layout) {
  const std::string table = table_of(layout.options);
  const auto chain = [&](const char* name, std::optional<nf::Hook> hook) {
    return TableChain{{{table_family(layout.family), table, name}, std::move(hook)}};
  };
  std::vector<TableChain> out{
      chain(kHostports, {}),
      chain("prerouting", nf::Hook{"nat", NF_INET_PRE_ROUTING, kDestinationNat}),
      chain("output", nf::Hook{"nat", NF_INET_LOCAL_OUT, kDestinationNat}),
      chain("postrouting", nf::Hook{"nat", NF_INET_POST_ROUTING, kSourceNat})};
  put_hostports(layout, out[0]);
  put_prerouting(layout, out[1]);
  put_output(layout, out[2]);
  put_postrouting(layout, out[3]);
  if (!is_v4(layout.family)) return out;
  out.push_back(chain("guard", nf::Hook{"filter", NF_INET_LOCAL_IN, kBeforeFilters}));
  put_guard(out.back());
  return out;
}

std::set<unsigned> prefixes_in(const std::vector<nf::Bytes>& rules, Family family) {
  std::set<unsigned> out;
  for (const nf::Bytes& rule : rules) {
    const std::string comment = nf::rule_comment(netlink::Attributes(rule));
    if (!comment.starts_with('/')) continue;
    unsigned prefix = 0;
    const char* const end = comment.data() + comment.size();
    const auto read = std::from_chars(comment.data() + 1, end, prefix);
    const bool is_whole = read.ec == std::errc() && read.ptr == end;
    if (is_whole && prefix <= Ip::any(family).bits()) out.insert(prefix);
  }
  return out;
}

}  // namespace portmap::nft

#include "plugins/portmap/table.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "libcni/error.h"
#include "libcni/hash.h"
#include "netlink/nf/match.h"
#include "plugins/portmap/conditions.h"

namespace portmap::nft {

namespace {

using cni::cat;
using netlink::nf::Attributes;
using netlink::nf::Batch;
using netlink::nf::Bytes;
using netlink::nf::Chain;
using netlink::nf::ChainId;
using netlink::nf::Expr;
using netlink::nf::Exprs;
using netlink::nf::Hook;
using netlink::nf::KeyType;
using netlink::nf::NfSocket;
using netlink::nf::Rule;
using netlink::nf::Set;
using netlink::nf::SetId;
using netlink::nf::Table;
using netlink::nf::Type;

// After what Services and NodePorts of kube-proxy do at -100, before what others masquerade at 100.
constexpr std::int32_t kDestinationNat = -95;
constexpr std::int32_t kSourceNat = 95;
constexpr std::int32_t kBeforeFilters = -150;
constexpr const char* kHostports = "hostports";

bool v4(Family family) { return family == Family::kIpv4; }

ChainId chain_id(Family family, const Options& options, const char* chain) {
  return {table_family(family), table_of(options), chain};
}

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

// Not a list in braces, which would be copied.
template <class... Rest>
std::vector<Exprs> in_order(Rest... rules) {
  std::vector<Exprs> out;
  out.reserve(sizeof...(rules));
  (out.push_back(std::move(rules)), ...);
  return out;
}

// The register whose first byte is that of the n-th word, as nft numbers it.
std::uint32_t reg_at(std::uint32_t word) { return word % 4 == 0 ? 1 + word / 4 : 8 + word; }

// What a key is made of, in this order, each part in registers of its own from the first on.
struct KeyParts {
  bool address = false;               ///< the destination's
  std::optional<std::uint32_t> link;  ///< NFT_META_IIFNAME or NFT_META_OIFNAME
};

//   ip daddr . iifname . meta l4proto . th dport
Exprs load_key(Family family, const KeyParts& parts) {
  Exprs out;
  std::uint32_t word = 0;
  if (parts.address) {
    const std::uint32_t length = v4(family) ? 4 : 16;
    const std::uint32_t offset = v4(family) ? 16 : 24;  // RFC 791, 3.1; RFC 8200, 3
    out.emplace_back(
        netlink::nf::Payload{NFT_PAYLOAD_NETWORK_HEADER, offset, length, reg_at(word)});
    word += length / 4;
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
Exprs mark_if(Family family, const KeyParts& parts, const char* set, unsigned bit) {
  return join(load_key(family, parts), netlink::nf::Lookup{.set = set}, set_mark(bit));
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

// What asks for one address comes first: it is the more specific, and whatever asks for all has no
// say then, not even about masquerading.
std::vector<Exprs> hostports_rules(Family family, const Options& options) {
  const unsigned bit = options.mark_bit;
  std::vector<Exprs> out;
  if (!v4(family)) {  // IPv6 never forwards from ::1: better a refusal than a black hole
    const Cidr localhost = *Cidr::parse("::1/128");
    out.push_back(join(netlink::nf::address(netlink::nf::Side::kDestination,
                                            netlink::nf::Compare::kEqual, localhost),
                       netlink::nf::return_verdict()));
  }
  const std::optional<std::uint32_t> in = NFT_META_IIFNAME;
  out.push_back(mark_if(family, {true, in}, "hairpin_hostip", bit));
  out.push_back(mark_if(family, {true, {}}, "masq_all_hostip", bit));
  out.push_back(dnat(family, {true, {}}, "ports_hostip"));
  out.push_back(mark_if(family, {false, in}, "hairpin", bit));
  out.push_back(mark_if(family, {false, {}}, "masq_all", bit));
  out.push_back(dnat(family, {false, {}}, "ports"));
  return out;
}

//   fib daddr type local jump hostports
Exprs local_jump() {
  return join(netlink::nf::Fib{NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_DADDR},
              netlink::nf::Cmp{NFT_CMP_EQ, host_order(RTN_LOCAL)},
              netlink::nf::jump_to(kHostports));
}

// A neighbour may not use what route_localnet opened, nor a port that is for 127.0.0.1 alone. Nor
// may it ask a port in the name of 127.0.0.0/8: the guard would let the pod's answer in.
std::vector<Exprs> prerouting_rules(Family family) {
  if (!v4(family)) return {};
  return in_order(join(loopback(netlink::nf::Side::kDestination), netlink::nf::return_verdict()),
                  join(loopback(netlink::nf::Side::kSource), netlink::nf::return_verdict()));
}

// From 127.0.0.1 the pod could not answer; local traffic leaves by lo until it is redirected.
std::vector<Exprs> output_rules(Family family, unsigned bit) {
  if (!v4(family)) return {};
  const std::optional<std::uint32_t> out = NFT_META_OIFNAME;
  const Exprs source = loopback(netlink::nf::Side::kSource);
  return in_order(join(source, mark_if(family, {false, out}, "hairpin", bit)),
                  join(source, mark_if(family, {true, out}, "hairpin_hostip", bit)));
}

std::vector<Exprs> postrouting_rules(unsigned bit) {
  return in_order(join(has_bits(netlink::nf::Meta{.key = NFT_META_MARK}, 1U << bit, true),
                       has_bits(netlink::nf::Ct{.key = NFT_CT_STATUS}, IPS_DST_NAT, true),
                       netlink::nf::Masq{}));
}

// route_localnet lets neighbours send to and from 127.0.0.0/8 (CVE-2020-8558): only packets of
// redirected connections may. Whatever else seems to belong to a connection is forged, since the
// node's own connections to 127.0.0.0/8 never leave lo.
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

struct StaticChain {
  const char* name;
  std::optional<Hook> hook;
  std::vector<Exprs> rules;
  bool jumps = false;  ///< ends with local_jump(), behind the conditions
};

std::vector<StaticChain> chains_of(Family family, const Options& options) {
  const unsigned bit = options.mark_bit;
  std::vector<StaticChain> out;
  out.push_back({kHostports, {}, hostports_rules(family, options)});
  out.push_back({"prerouting", Hook{"nat", NF_INET_PRE_ROUTING, kDestinationNat},
                 prerouting_rules(family), true});
  out.push_back(
      {"output", Hook{"nat", NF_INET_LOCAL_OUT, kDestinationNat}, output_rules(family, bit), true});
  out.push_back(
      {"postrouting", Hook{"nat", NF_INET_POST_ROUTING, kSourceNat}, postrouting_rules(bit)});
  if (v4(family)) {
    out.push_back({"guard", Hook{"filter", NF_INET_LOCAL_IN, kBeforeFilters}, guard_rules()});
  }
  if (!options.conditions(family).empty()) return out;
  for (StaticChain& chain : out) {
    if (chain.jumps) chain.rules.push_back(local_jump());
  }
  return out;
}

std::vector<Set> sets_of(Family family, const std::string& table) {
  const Type address = v4(family) ? Type::kIpv4Address : Type::kIpv6Address;
  const KeyType port{Type::kInetProto, Type::kInetService};
  const KeyType hostip_port{address, Type::kInetProto, Type::kInetService};
  const KeyType target{address, Type::kInetService};
  const auto set = [&](const char* name, const KeyType& key) {
    return Set{.id = {table_family(family), table, name}, .key = key, .data = {}};
  };
  const auto map = [&](const char* name, const KeyType& key) {
    return Set{.id = {table_family(family), table, name}, .key = key, .data = target};
  };
  return {map("ports", port),
          map("ports_hostip", hostip_port),
          set("hairpin", {Type::kIfname, Type::kInetProto, Type::kInetService}),
          set("hairpin_hostip", {address, Type::kIfname, Type::kInetProto, Type::kInetService}),
          set("masq_all", port),
          set("masq_all_hostip", hostip_port)};
}

// Of all rules of the table those of the chain are looked at. It may end with a jump behind
// whatever conditions nft made of the text.
bool as_wanted(const StaticChain& chain, const std::vector<Bytes>& rules, bool conditional) {
  std::vector<Attributes> seen;
  for (const Bytes& rule : rules) {
    const Attributes one(rule);
    if (one.text_at(NFTA_RULE_CHAIN) == chain.name) seen.push_back(one);
  }
  if (conditional && chain.jumps) {
    if (seen.empty()) return false;
    if (netlink::nf::target_of(decode_rule({}, seen.back()).exprs) != kHostports) return false;
    seen.pop_back();
  }
  return std::equal(seen.begin(), seen.end(), chain.rules.begin(), chain.rules.end(),
                    netlink::nf::shows);
}

std::string text_of(const std::vector<std::string>& conditions) {
  std::string out;
  for (const std::string& one : conditions) out += cat(out.empty() ? "" : " ", one);
  return out;
}

std::string nft_text(Family family, const Options& options) {
  std::string out;
  for (const char* chain : {"prerouting", "output"}) {
    out +=
        cat("add rule ", v4(family) ? "ip " : "ip6 ", table_of(options), " ", chain, " ",
            text_of(options.conditions(family)), " fib daddr type local jump ", kHostports, "\n");
  }
  return out;
}

// The table first, then the rules with conditions; a new table does not stay where nft refuses
// them.
void add_conditions(NfSocket& socket, Family family, const Options& options) {
  const auto in = table_family(family);
  const bool is_new = !socket.has_table(in, table_of(options));
  Batch batch;
  put_skeleton(family, options, batch);
  socket.commit(batch);
  try {
    cni::during(cat(v4(family) ? "conditionsV4" : "conditionsV6", ": '",
                    text_of(options.conditions(family)), "'"),
                [&] { run_nft(nft_text(family, options)); });
  } catch (const cni::Error&) {
    Batch removal;
    removal.remove(netlink::nf::DeleteTable{in, table_of(options)});
    if (is_new) socket.commit(removal);
    throw;
  }
}

}  // namespace

std::string table_of(const Options& options) {
  const Options usual;
  if (options.mark_bit == usual.mark_bit && options.conditions_v4.empty() &&
      options.conditions_v6.empty()) {
    return kTablePrefix;
  }
  std::string text = cat(options.mark_bit);
  for (const auto* list : {&options.conditions_v4, &options.conditions_v6}) {
    text += '\n';
    for (const std::string& one : *list) text += one + '\0';
  }
  return cat(kTablePrefix, "_", cni::sha512_hex(text).substr(0, 8));
}

netlink::nf::TableFamily table_family(Family family) {
  return v4(family) ? netlink::nf::TableFamily::kIp : netlink::nf::TableFamily::kIp6;
}

SetId set_of(Kind kind, const Key& key, const std::string& table) {
  std::string name = kind == Kind::kPorts     ? "ports"
                     : kind == Kind::kHairpin ? "hairpin"
                                              : "masq_all";
  if (key.address) name += "_hostip";
  return {table_family(key.family), table, name};
}

std::vector<SetId> all_sets(Family family, const std::string& table) {
  std::vector<SetId> out;
  for (const Set& set : sets_of(family, table)) out.push_back(set.id);
  return out;
}

Bytes ports_key(const Key& key) {
  const Bytes protocol = netlink::nf::value_of_protocol(static_cast<std::uint8_t>(key.protocol));
  const Bytes port = netlink::nf::value_of_port(key.port);
  if (!key.address) return netlink::nf::concatenate({protocol, port});
  return netlink::nf::concatenate({netlink::nf::value_of(*key.address), protocol, port});
}

Bytes hairpin_key(const Key& key, const std::string& link) {
  const Bytes name = netlink::nf::value_of_ifname(link);
  const Bytes protocol = netlink::nf::value_of_protocol(static_cast<std::uint8_t>(key.protocol));
  const Bytes port = netlink::nf::value_of_port(key.port);
  if (!key.address) return netlink::nf::concatenate({name, protocol, port});
  return netlink::nf::concatenate({netlink::nf::value_of(*key.address), name, protocol, port});
}

Bytes ports_data(const Claim& claim) {
  return netlink::nf::concatenate(
      {netlink::nf::value_of(claim.target), netlink::nf::value_of_port(claim.target_port)});
}

void put_skeleton(Family family, const Options& options, Batch& batch) {
  batch.add(Table{table_family(family), table_of(options), "hostPorts of pods"});
  for (Set& set : sets_of(family, table_of(options))) batch.add(std::move(set));
  const auto chains = chains_of(family, options);
  for (const StaticChain& chain : chains) {
    batch.add(Chain{chain_id(family, options, chain.name), chain.hook});
  }
  for (const StaticChain& chain : chains) {
    const ChainId id = chain_id(family, options, chain.name);
    batch.flush(id);
    for (const Exprs& exprs : chain.rules) batch.add(Rule{id, exprs});
  }
}

std::string flaw_in(NfSocket& socket, Family family, const Options& options) {
  const std::string table = table_of(options);
  const auto seen = socket.raw_table_rules(table_family(family), table);
  if (seen.empty())
    return cat("table '", name_of(table_family(family)), " ", table, "' is missing");
  const bool conditional = !options.conditions(family).empty();
  for (const StaticChain& chain : chains_of(family, options)) {
    if (as_wanted(chain, seen, conditional)) continue;
    return cat("chain '", chain_id(family, options, chain.name).str(), "' is not as it should be");
  }
  return {};
}

void ensure(NfSocket& socket, Family family, const Options& options, Batch& batch) {
  if (flaw_in(socket, family, options).empty()) return;
  if (options.conditions(family).empty()) {
    put_skeleton(family, options, batch);
    return;
  }
  add_conditions(socket, family, options);
}

}  // namespace portmap::nft

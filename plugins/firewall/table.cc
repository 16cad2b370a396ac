#include "plugins/firewall/table.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>

#include <algorithm>
#include <utility>

#include "libcni/common/error.h"
#include "netlink/nf/match.h"
#include "plugins/names/tables.h"

namespace firewall::nft {

namespace {

using netlink::cat;
using netlink::Family;
using netlink::kFamilies;
using netlink::nf::Batch;
using netlink::nf::Bytes;
using netlink::nf::Chain;
using netlink::nf::ChainId;
using netlink::nf::Exprs;
using netlink::nf::Hook;
using netlink::nf::host_order;
using netlink::nf::KeyType;
using netlink::nf::Lookup;
using netlink::nf::Meta;
using netlink::nf::NfSocket;
using netlink::nf::Rule;
using netlink::nf::Set;
using netlink::nf::SetId;
using netlink::nf::Table;
using netlink::nf::TableFamily;
using netlink::nf::Type;

constexpr const char* kTable = names::kFirewallTable;
constexpr const char* kForward = "forward";
constexpr const char* kIsolation = "isolation";
constexpr const char* kAdmin = "admin";
// NF_IP_PRI_FILTER; NF_BR_FORWARD and NF_BR_PRI_FILTER_BRIDGED, whose header clashes with the C
// library's.
constexpr std::int32_t kFilter = 0;
constexpr std::uint32_t kBridgeForward = 2;
constexpr std::int32_t kBridgeFilter = -200;

ChainId chain(std::string name) { return {TableFamily::kInet, kTable, std::move(name)}; }
ChainId bridge_forward() { return {TableFamily::kBridge, kTable, kForward}; }

//   iifname @policy_links jump isolation
Exprs from_policy_link() {
  return {Meta{.key = NFT_META_IIFNAME}, Lookup{.set = policy_links().set},
          netlink::nf::jump_to(kIsolation)};
}

//   ct state established,related accept
Exprs replies() {
  constexpr std::uint32_t kEstablished = 1U << (IP_CT_ESTABLISHED + 1);  // NF_CT_STATE_BIT()
  constexpr std::uint32_t kRelated = 1U << (IP_CT_RELATED + 1);
  return {netlink::nf::Ct{.key = NFT_CT_STATE},
          netlink::nf::Bitwise{host_order(kEstablished | kRelated), host_order(0)},
          netlink::nf::Cmp{NFT_CMP_NEQ, host_order(0)}, netlink::nf::accept()};
}

//   ip saddr @pods4 accept
Exprs from_pod(Family family) {
  Exprs out = netlink::nf::l3_protocol(family);
  const netlink::Cidr whole{netlink::Ip::any(family), netlink::Ip::any(family).bits()};
  const auto match =
      netlink::nf::address(netlink::nf::Side::kSource, netlink::nf::Compare::kEqual, whole);
  out.push_back(match.front());  // its load alone
  out.emplace_back(Lookup{.set = pods().of(family).set});
  out.emplace_back(netlink::nf::accept());
  return out;
}

// The policy comes before the operator's chain, as in the reference plugin, so that the latter
// cannot join networks. Replies need no lookup. A packet costs one lookup of its link, and the
// first ones of a connection one of its source.
std::vector<Exprs> forward_rules() {
  return {from_policy_link(),
          {netlink::nf::jump_to(kAdmin)},
          replies(),
          from_pod(Family::kIpv4),
          from_pod(Family::kIpv6)};
}

//   iifname . oifname @same_bridge return
//   oifname @policy_links drop
std::vector<Exprs> isolation_rules() {
  return {{Meta{.key = NFT_META_IIFNAME, .reg = NFT_REG_1},
           Meta{.key = NFT_META_OIFNAME, .reg = NFT_REG_2}, Lookup{.set = same_bridge().set},
           netlink::nf::return_verdict()},
          {Meta{.key = NFT_META_OIFNAME}, Lookup{.set = policy_links().set}, netlink::nf::drop()}};
}

//   iifname @isolated drop
//   oifname @isolated drop
std::vector<Exprs> bridge_rules() {
  std::vector<Exprs> out;
  for (const std::uint32_t name : {NFT_META_IIFNAME, NFT_META_OIFNAME}) {
    out.push_back({Meta{.key = name}, Lookup{.set = isolated().set}, netlink::nf::drop()});
  }
  return out;
}

// The chains that chain admin jumps to: networks may name several.
std::vector<std::string> admin_chains(const RawRules& seen) {
  std::vector<std::string> out;
  for (const Bytes& bytes : seen) {
    const Rule rule = netlink::nf::decode_rule(TableFamily::kInet, netlink::Attributes(bytes));
    if (rule.chain.chain != kAdmin) continue;
    const std::string target = netlink::nf::target_of(rule.exprs);
    if (target.empty() || std::find(out.begin(), out.end(), target) != out.end()) continue;
    out.push_back(target);
  }
  return out;
}

/// A chain and its rules.
struct Wanted {
  const char* name;
  std::vector<Exprs> rules;
};

// The order lets each chain exist before a rule jumps to it.
std::vector<Wanted> chains_for(const RawRules& seen, const std::string& admin_chain) {
  auto names = admin_chains(seen);
  if (std::find(names.begin(), names.end(), admin_chain) == names.end()) {
    names.push_back(admin_chain);
  }
  std::vector<Exprs> jumps;
  for (std::string& name : names) jumps.push_back({netlink::nf::jump_to(std::move(name))});
  return {{kAdmin, std::move(jumps)}, {kIsolation, isolation_rules()}, {kForward, forward_rules()}};
}

void plan_sets(Batch& batch) {
  batch.add(Table{TableFamily::kInet, kTable, "Firewall of pods"});
  for (const Family family : kFamilies) {
    batch.add(Set{pods().of(family), {KeyType::address(family)}});
  }
  batch.add(Set{policy_links(), {Type::kIfname}});
  batch.add(Set{same_bridge(), {Type::kIfname, Type::kIfname}});
}

}  // namespace

const plugins::PodSets& pods() {
  static const plugins::PodSets sets{{TableFamily::kInet, kTable, "pods4"},
                                     {TableFamily::kInet, kTable, "pods6"}};
  return sets;
}

const SetId& policy_links() {
  static const SetId set{TableFamily::kInet, kTable, "policy_links"};
  return set;
}

const SetId& same_bridge() {
  static const SetId set{TableFamily::kInet, kTable, "same_bridge"};
  return set;
}

const SetId& other_policies() {
  static const SetId set{TableFamily::kInet, kTable, "other_policies"};
  return set;
}

const SetId& isolated() {
  static const SetId set{TableFamily::kBridge, kTable, "isolated"};
  return set;
}

RawRules seen_table(NfSocket& socket) { return socket.raw_table_rules(TableFamily::kInet, kTable); }
RawRules seen_bridge_table(NfSocket& socket) {
  return socket.raw_table_rules(TableFamily::kBridge, kTable);
}

// Flushing in the same transaction is what makes any number of concurrent first ADDs end with one
// set of rules, and leaves no moment without them.
void plan_table(const RawRules& seen, const std::string& admin_chain, Batch& batch) {
  bool has_sets = false;
  for (const Wanted& wanted : chains_for(seen, admin_chain)) {
    if (netlink::nf::shows_chain(seen, wanted.name, wanted.rules)) continue;
    if (!std::exchange(has_sets, true)) plan_sets(batch);
    const ChainId id = chain(wanted.name);
    const bool is_base = id.chain == kForward;
    const Hook hook{"filter", NF_INET_FORWARD, kFilter};
    batch.add(Chain{id, is_base ? std::optional(hook) : std::nullopt}).flush(id);
    for (const Exprs& exprs : wanted.rules) {
      if (id.chain == kAdmin) batch.add(Chain{chain(netlink::nf::target_of(exprs))});
      batch.add(Rule{id, exprs});
    }
  }
}

void plan_bridge_table(const RawRules& seen, Batch& batch) {
  if (!bridge_table_flaw(seen)) return;
  batch.add(Table{TableFamily::kBridge, kTable, "Firewall of pods"});
  batch.add(Set{isolated(), {Type::kIfname}});
  const Hook hook{"filter", kBridgeForward, kBridgeFilter};
  batch.add(Chain{bridge_forward(), hook}).flush(bridge_forward());
  for (const Exprs& exprs : bridge_rules()) batch.add(Rule{bridge_forward(), exprs});
}

std::optional<std::string> table_flaw(const RawRules& seen, const std::string& admin_chain) {
  for (const Wanted& wanted : chains_for(seen, admin_chain)) {
    if (netlink::nf::shows_chain(seen, wanted.name, wanted.rules)) continue;
    return cat("chain '", chain(wanted.name).str(), "' is not as it should be");
  }
  return std::nullopt;
}

std::optional<std::string> bridge_table_flaw(const RawRules& seen) {
  if (netlink::nf::shows_chain(seen, kForward, bridge_rules())) return std::nullopt;
  return cat("chain '", bridge_forward().str(), "' is not as it should be");
}

}  // namespace firewall::nft

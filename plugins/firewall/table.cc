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

namespace nf = netlink::nf;
using netlink::cat;
using netlink::Family;
using netlink::kFamilies;

constexpr const char* kTable = names::kFirewallTable;
constexpr const char* kForward = "forward";
constexpr const char* kIsolation = "isolation";
constexpr const char* kAdmin = "admin";
// NF_IP_PRI_FILTER; NF_BR_FORWARD and NF_BR_PRI_FILTER_BRIDGED, whose header clashes with the C
// library's.
constexpr std::int32_t kFilter = 0;
constexpr std::uint32_t kBridgeForward = 2;
constexpr std::int32_t kBridgeFilter = -200;

nf::ChainId chain(std::string name) { return {nf::TableFamily::kInet, kTable, std::move(name)}; }
nf::ChainId bridge_forward() { return {nf::TableFamily::kBridge, kTable, kForward}; }

//   iifname @policy_links jump isolation
nf::Exprs from_policy_link() {
  return {nf::Meta{.key = NFT_META_IIFNAME}, nf::Lookup{.set = policy_links().set},
          nf::jump_to(kIsolation)};
}

//   ct state established,related accept
nf::Exprs replies() {
  constexpr std::uint32_t kEstablished = 1U << (IP_CT_ESTABLISHED + 1);  // NF_CT_STATE_BIT()
  constexpr std::uint32_t kRelated = 1U << (IP_CT_RELATED + 1);
  return {nf::Ct{.key = NFT_CT_STATE},
          nf::Bitwise{nf::host_order(kEstablished | kRelated), nf::host_order(0)},
          nf::Cmp{NFT_CMP_NEQ, nf::host_order(0)}, nf::accept()};
}

//   ip saddr @pods4 accept
nf::Exprs from_pod(Family family) {
  nf::Exprs out = nf::l3_protocol(family);
  const netlink::Cidr whole{netlink::Ip::any(family), netlink::Ip::any(family).bits()};
  const auto match = nf::address(nf::Side::kSource, nf::Compare::kEqual, whole);
  out.push_back(match.front());  // its load alone
  out.emplace_back(nf::Lookup{.set = pods().of(family).set});
  out.emplace_back(nf::accept());
  return out;
}

// The policy comes before the operator's chain, as in the reference plugin, so that the latter
// cannot join networks. Replies need no lookup. A packet costs one lookup of its link, and the
// first ones of a connection one of its source.
std::vector<nf::Exprs> forward_rules() {
  return {from_policy_link(),
          {nf::jump_to(kAdmin)},
          replies(),
          from_pod(Family::kIpv4),
          from_pod(Family::kIpv6)};
}

//   iifname . oifname @same_bridge return
//   oifname @policy_links drop
std::vector<nf::Exprs> isolation_rules() {
  return {{nf::Meta{.key = NFT_META_IIFNAME, .reg = NFT_REG_1},
           nf::Meta{.key = NFT_META_OIFNAME, .reg = NFT_REG_2},
           nf::Lookup{.set = same_bridge().set}, nf::return_verdict()},
          {nf::Meta{.key = NFT_META_OIFNAME}, nf::Lookup{.set = policy_links().set}, nf::drop()}};
}

//   iifname @isolated drop
//   oifname @isolated drop
std::vector<nf::Exprs> bridge_rules() {
  std::vector<nf::Exprs> out;
  for (const std::uint32_t name : {NFT_META_IIFNAME, NFT_META_OIFNAME}) {
    out.push_back({nf::Meta{.key = name}, nf::Lookup{.set = isolated().set}, nf::drop()});
  }
  return out;
}

// The chains that chain admin jumps to: networks may name several.
std::vector<std::string> admin_chains(const RawRules& seen) {
  std::vector<std::string> out;
  for (const nf::Bytes& bytes : seen) {
    const nf::Rule rule = nf::decode_rule(nf::TableFamily::kInet, netlink::Attributes(bytes));
    if (rule.chain.chain != kAdmin) continue;
    const std::string target = nf::target_of(rule.exprs);
    if (target.empty() || std::ranges::find(out, target) != out.end()) continue;
    out.push_back(target);
  }
  return out;
}

/// A chain and its rules.
struct Wanted {
  const char* name;
  std::vector<nf::Exprs> rules;
};

// The order lets each chain exist before a rule jumps to it.
std::vector<Wanted> chains_for(const RawRules& seen, const std::string& admin_chain) {
  auto names = admin_chains(seen);
  if (std::ranges::find(names, admin_chain) == names.end()) {
    names.push_back(admin_chain);
  }
  std::vector<nf::Exprs> jumps;
  for (std::string& name : names) jumps.push_back({nf::jump_to(std::move(name))});
  return {{kAdmin, std::move(jumps)}, {kIsolation, isolation_rules()}, {kForward, forward_rules()}};
}

void plan_sets(nf::Batch& batch) {
  batch.add(nf::Table{nf::TableFamily::kInet, kTable, "Firewall of pods"});
  for (const Family family : kFamilies) {
    batch.add(nf::Set{pods().of(family), {nf::KeyType::address(family)}});
  }
  batch.add(nf::Set{policy_links(), {nf::Type::kIfname}});
  batch.add(nf::Set{same_bridge(), {nf::Type::kIfname, nf::Type::kIfname}});
}

}  // namespace

const plugins::PodSets& pods() {
  static const plugins::PodSets sets{{nf::TableFamily::kInet, kTable, "pods4"},
                                     {nf::TableFamily::kInet, kTable, "pods6"}};
  return sets;
}

const nf::SetId& policy_links() {
  static const nf::SetId set{nf::TableFamily::kInet, kTable, "policy_links"};
  return set;
}

const nf::SetId& same_bridge() {
  static const nf::SetId set{nf::TableFamily::kInet, kTable, "same_bridge"};
  return set;
}

const nf::SetId& other_policies() {
  static const nf::SetId set{nf::TableFamily::kInet, kTable, "other_policies"};
  return set;
}

const nf::SetId& isolated() {
  static const nf::SetId set{nf::TableFamily::kBridge, kTable, "isolated"};
  return set;
}

RawRules seen_table(nf::NfSocket& socket) {
  return socket.raw_table_rules(nf::TableFamily::kInet, kTable);
}
RawRules seen_bridge_table(nf::NfSocket& socket) {
  return socket.raw_table_rules(nf::TableFamily::kBridge, kTable);
}

// Flushing in the same transaction is what makes any number of concurrent first ADDs end with one
// set of rules, and leaves no moment without them.
void plan_table(const RawRules& seen, const std::string& admin_chain, nf::Batch& batch) {
  bool has_sets = false;
  for (const Wanted& wanted : chains_for(seen, admin_chain)) {
    if (nf::shows_chain(seen, wanted.name, wanted.rules)) continue;
    if (!std::exchange(has_sets, true)) plan_sets(batch);
    const nf::ChainId id = chain(wanted.name);
    const bool is_base = id.chain == kForward;
    const nf::Hook hook{"filter", NF_INET_FORWARD, kFilter};
    batch.add(nf::Chain{id, is_base ? std::optional(hook) : std::nullopt}).flush(id);
    for (const nf::Exprs& exprs : wanted.rules) {
      if (id.chain == kAdmin) batch.add(nf::Chain{chain(nf::target_of(exprs))});
      batch.add(nf::Rule{id, exprs});
    }
  }
}

void plan_bridge_table(const RawRules& seen, nf::Batch& batch) {
  if (!bridge_table_flaw(seen)) return;
  batch.add(nf::Table{nf::TableFamily::kBridge, kTable, "Firewall of pods"});
  batch.add(nf::Set{isolated(), {nf::Type::kIfname}});
  const nf::Hook hook{"filter", kBridgeForward, kBridgeFilter};
  batch.add(nf::Chain{bridge_forward(), hook}).flush(bridge_forward());
  for (const nf::Exprs& exprs : bridge_rules()) batch.add(nf::Rule{bridge_forward(), exprs});
}

std::optional<std::string> table_flaw(const RawRules& seen, const std::string& admin_chain) {
  for (const Wanted& wanted : chains_for(seen, admin_chain)) {
    if (nf::shows_chain(seen, wanted.name, wanted.rules)) continue;
    return cat("chain '", chain(wanted.name).str(), "' is not as it should be");
  }
  return std::nullopt;
}

std::optional<std::string> bridge_table_flaw(const RawRules& seen) {
  if (nf::shows_chain(seen, kForward, bridge_rules())) return std::nullopt;
  return cat("chain '", bridge_forward().str(), "' is not as it should be");
}

}  // namespace firewall::nft

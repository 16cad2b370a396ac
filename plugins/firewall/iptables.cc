#include "plugins/firewall/iptables.h"

#include <algorithm>
#include <set>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "netlink/nf/rule_watch.h"
#include "plugins/common/firewall/iptables_restore.h"
#include "plugins/common/firewall/xt_tables.h"
#include "plugins/firewall/iptables_rules.h"

namespace firewall::iptables {

namespace {

namespace nf = netlink::nf;
using cni::cat;
using plugins::XtablesVariant;
using plugins::xt::filter;
using plugins::xt::Tables;

Wanted wanted_of(const Rules& rules, Family family) {
  return {family,
          of_family(rules.addresses, family),
          rules.admin_chain,
          rules.link,
          rules.policy,
          rules.policy_alone};
}

// A filter saves nothing with iptables-legacy, whose iptables-save lists the whole table.
std::vector<FilterRule> rules_in(Tables& tables, const nf::ChainId& chain,
                                 const Tables::Filter& filter = {}) {
  std::vector<FilterRule> out;
  if (tables.variant() == XtablesVariant::kLegacy) {
    for (const cni::Words& words : tables.saved_rules(chain)) {
      out.push_back(rule_from(chain.chain, words));
    }
    return out;
  }
  const Family family = plugins::xt::family_of(chain);
  for (const nf::Rule& rule : tables.rules(chain, filter)) out.push_back(rule_from(rule, family));
  return out;
}

// The chain is long, with two rules per address: only rules of these are decoded, unless the search
// for so many addresses takes longer.
Tables::Filter mentioning(const std::vector<Ip>& addresses) {
  constexpr std::size_t kMany = 16;
  Tables::Filter out;
  if (addresses.size() > kMany) return out;
  for (const Ip& ip : addresses) out.mentions.emplace_back(ip.data(), ip.data() + ip.size());
  return out;
}

std::vector<FilterRule> forward_rules(Tables& tables, const Wanted& wanted, bool all) {
  const nf::ChainId chain = filter(wanted.family, kForward);
  if (all || tables.variant() == XtablesVariant::kLegacy) {
    Tables::Filter relevant = mentioning(wanted.addresses);
    if (!relevant.mentions.empty()) {
      relevant.mentions.emplace_back(wanted.admin_chain.begin(), wanted.admin_chain.end());
    }
    return rules_in(tables, chain, relevant);
  }
  std::vector<FilterRule> out;
  const Family family = wanted.family;
  for (const nf::Rule& rule : nf::NfSocket::first_rules(chain))
    out.push_back(rule_from(rule, family));
  return out;
}

Existing read_existing(Tables tables, const Wanted& wanted, bool all) {
  Existing seen;
  for (const std::string& chain :
       {std::string(kForward), wanted.admin_chain, std::string(kStage1), std::string(kStage2)}) {
    if (tables.has_chain(filter(wanted.family, chain))) seen.chains.insert(chain);
  }
  seen.parent = rules_in(tables, filter(wanted.family, kParent));
  if (seen.chains.contains(kForward)) {
    seen.forward = forward_rules(tables, wanted, all);
  }
  for (const char* const stage : {kStage1, kStage2}) {
    if (!seen.chains.contains(stage)) continue;
    for (FilterRule& rule : rules_in(tables, filter(wanted.family, stage))) {
      seen.stages.push_back(std::move(rule));
    }
  }
  return seen;
}

// If another program changes the ruleset meanwhile, iptables-nft starts again and treats chains
// that were created in between as its own. Shared chains are therefore created over netlink, which
// accepts existing ones; the base chain as iptables-nft creates it.
void create_chains(nf::NfSocket& socket, const Wanted& wanted) {
  std::vector<nf::ChainId> ids;
  for (const std::string& chain : chains_of(wanted)) ids.push_back(filter(wanted.family, chain));
  const std::vector<bool> found = socket.has_chains(ids);
  nf::Batch batch;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (found[i]) continue;
    if (batch.empty()) batch.add(nf::Table{ids[i].family, ids[i].table});
    batch.add(nf::Chain{ids[i]});
  }
  socket.commit(batch);
}

/// The rules of addresses in a family's long chain.
class OwnRules {
 public:
  OwnRules(const std::vector<Ip>& addresses, Family family) {
    for (const Ip& ip : of_family(addresses, family)) addresses_.insert(ip);
  }
  bool empty() const { return addresses_.empty(); }
  bool has(const FilterRule& rule) const {
    const auto& address = rule.source ? rule.source : rule.destination;
    if (!address || !addresses_.contains(address->ip)) return false;
    const auto own = address_rules({address->ip});
    return std::ranges::any_of(own, [&](const FilterRule& one) { return one.equals(rule); });
  }

 private:
  std::set<Ip> addresses_;
};

// For a hint alone: ADD goes on without it.
std::optional<nf::RuleWatch> watch_rules() try {
  return nf::RuleWatch();
} catch (const netlink::Error&) {
  return std::nullopt;
}

void add_family(nf::NfSocket* socket, const Rules& rules, Family family,
                std::vector<RuleHandle>& handles) {
  const plugins::RestoreTool tool = plugins::require_restore(family);
  const Wanted wanted = wanted_of(rules, family);
  auto watch = tool.variant == XtablesVariant::kNft ? watch_rules() : std::nullopt;
  plugins::restore_planned(tool, [&] {
    const bool nft = tool.variant == XtablesVariant::kNft;
    if (nft && socket != nullptr) create_chains(*socket, wanted);
    return rules_to_add(wanted, read_existing({socket, tool.variant}, wanted, rules.compare));
  });
  if (!watch) return;
  const OwnRules own(rules.addresses, family);
  for (const nf::Rule& rule : watch->added(filter(family, kForward))) {
    if (own.has(rule_from(rule, family))) handles.push_back({family, rule.handle});
  }
}

// False: there are none.
bool plan_remove(nf::NfSocket& socket, const std::vector<Ip>& addresses, nf::Batch& batch) {
  for (const Family family : netlink::kFamilies) {
    const OwnRules own(addresses, family);
    if (own.empty()) continue;
    for (const nf::Rule& rule : socket.rules(filter(family, kForward), mentioning(addresses))) {
      if (own.has(rule_from(rule, family))) batch.remove(rule);
    }
  }
  return !batch.empty();
}

// Removes rules as often as they exist: two reference plugins that run at once add them twice.
std::string rules_to_remove(Family family, const std::vector<Ip>& addresses) {
  const OwnRules own(addresses, family);
  Tables tables(nullptr, XtablesVariant::kLegacy);
  std::string out;
  for (const FilterRule& rule : rules_in(tables, filter(family, kForward))) {
    if (own.has(rule)) out += cat("-D ", kForward, " ", rule.text(), "\n");
  }
  return out.empty() ? out : cat("*filter\n", out, "COMMIT\n");
}

// False: there are none.
bool remove_legacy(Family family, const std::vector<Ip>& addresses) {
  if (OwnRules(addresses, family).empty()) return false;
  if (rules_to_remove(family, addresses).empty()) return false;
  plugins::restore_planned(plugins::require_legacy_restore(family, kForward),
                           [&] { return rules_to_remove(family, addresses); });
  return true;
}

// Whether nothing is missing of iptables-nft's rules, by the handles and the first rules of the
// long chain: all of it need not be read.
bool is_where_added(nf::NfSocket& socket, const Wanted& wanted,
                    const std::vector<RuleHandle>& handles) {
  std::vector<std::uint64_t> own;
  for (const RuleHandle& one : handles) {
    if (one.family == wanted.family) own.push_back(one.handle);
  }
  if (own.empty()) return false;
  Existing seen = read_existing(Tables(&socket, XtablesVariant::kNft), wanted, false);
  for (const auto& rule : socket.rules_at(filter(wanted.family, kForward), own)) {
    if (rule) seen.forward.push_back(rule_from(*rule, wanted.family));
  }
  return !iptables::missing(wanted, seen);
}

std::vector<Family> families_of(const Rules& rules) {
  std::vector<Family> out;
  for (const Family family : netlink::kFamilies) {
    if (!of_family(rules.addresses, family).empty()) out.push_back(family);
  }
  return out;
}

}  // namespace

std::vector<RuleHandle> add(nf::NfSocket* socket, const Rules& rules) {
  std::vector<RuleHandle> handles;
  for (const Family family : families_of(rules)) {
    cni::during("add the rules of the firewall",
                [&] { add_family(socket, rules, family, handles); });
  }
  return handles;
}

bool remove(nf::NfSocket* socket, const std::vector<Ip>& addresses) {
  bool found = false;
  cni::BestEffort each;
  if (socket != nullptr) {
    each("nf_tables", [&] {
      socket->commit_planned(
          [&](nf::Batch& batch) { found = plan_remove(*socket, addresses, batch) || found; });
    });
  }
  for (const Family family : netlink::kFamilies) {
    each("iptables", [&] { found = remove_legacy(family, addresses) || found; });
  }
  each.finish();
  return found;
}

std::optional<std::string> missing(nf::NfSocket* socket, const Rules& rules) {
  for (const Family family : families_of(rules)) {
    const Wanted wanted = wanted_of(rules, family);
    if (socket != nullptr && is_where_added(*socket, wanted, rules.handles)) continue;
    std::optional<std::string> why;
    for (const XtablesVariant variant : cni::kXtablesVariants) {
      auto flaw = iptables::missing(wanted, read_existing(Tables(socket, variant), wanted, true));
      if (!flaw) {
        why.reset();
        break;
      }
      // The flaw of the variant that has the chain is reported, else the first one.
      const bool has_chain = Tables(socket, variant).has_chain(filter(family, kForward));
      if (!why || has_chain) why = std::move(flaw);
    }
    if (why) return why;
  }
  return std::nullopt;
}

bool has(nf::NfSocket* socket, const std::vector<Ip>& addresses) {
  for (const XtablesVariant variant : cni::kXtablesVariants) {
    for (const Family family : netlink::kFamilies) {
      const OwnRules own(addresses, family);
      if (own.empty()) continue;
      Tables tables(socket, variant);
      const auto seen = rules_in(tables, filter(family, kForward), mentioning(addresses));
      if (std::ranges::any_of(seen, [&](const FilterRule& rule) { return own.has(rule); })) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace firewall::iptables

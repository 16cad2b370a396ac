#include <algorithm>

#include "libcni/error.h"
#include "netlink/nf/match.h"
#include "plugins/common/xt_tables.h"
#include "plugins/common/xt_text.h"
#include "plugins/portmap/iptables.h"
#include "plugins/portmap/iptables_rules.h"

namespace portmap::iptables {

namespace {

using cni::cat;
using netlink::nf::ChainId;
using netlink::nf::NfSocket;
using netlink::nf::Rule;
using plugins::XtablesVariant;
using plugins::xt::nat;
using plugins::xt::Tables;

using Texts = std::vector<std::string>;

Texts texts_in(Tables& tables, const ChainId& chain, const std::string& target = {}) {
  Texts out;
  for (const Rule& rule : tables.rules(chain)) {
    if (!target.empty() && netlink::nf::target_of(rule.exprs) != target) continue;
    out.push_back(plugins::xt::text_of(rule));
  }
  return out;
}

// "rule '-A PREROUTING ...' of ip6tables' table nat is missing".
std::string missing_rule(Family family, const RuleText& rule) {
  return cat("rule '", rule.str(), "' of ", family == Family::kIpv4 ? "iptables'" : "ip6tables'",
             " table ", rule.table, " is missing");
}

bool contains(const Texts& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

std::optional<std::string> missing_shared(Tables& tables, Family family, const Options& options) {
  for (const RuleText& rule : shared_rules(family, options)) {
    const auto id =
        rule.table == "nat" ? nat(family, rule.chain) : plugins::xt::filter(family, rule.chain);
    if (!contains(texts_in(tables, id), rule.text)) return missing_rule(family, rule);
  }
  return std::nullopt;
}

// Conditions may be any match of iptables, whose words are not known: the rest has to be there.
bool is_entry(const std::string& seen, const std::string& wanted, const Options& options,
              Family family) {
  if (options.conditions(family).empty()) return seen == wanted;
  const std::size_t comment = wanted.find(" -m comment");
  const std::size_t ports = wanted.find(' ', wanted.find("--dports ") + 9);
  const std::string target = wanted.substr(wanted.rfind(" -j "));
  return seen.ends_with(target) && seen.find(wanted.substr(0, comment)) != std::string::npos &&
         seen.find(wanted.substr(comment, ports - comment) + " ") != std::string::npos;
}

std::optional<std::string> missing_entry(Tables& tables, Family family,
                                         const Attachment& attachment) {
  const std::string chain = chain_of(attachment.owner);
  const Texts seen = texts_in(tables, nat(family, kDnatChain), chain);
  const Texts wanted = entry_rules(family, attachment);
  for (const std::string& rule : wanted) {
    const bool there = std::any_of(seen.begin(), seen.end(), [&](const std::string& text) {
      return is_entry(text, rule, attachment.options, family);
    });
    if (!there) return missing_rule(family, {"nat", kDnatChain, rule});
  }
  if (seen.size() == wanted.size()) return std::nullopt;
  return cat("chain '", kDnatChain, "' has rules for '", chain, "' that are not the container's");
}

std::optional<std::string> missing_in_chain(Tables& tables, Family family,
                                            const Attachment& attachment, const PodAddresses& pod) {
  const std::string chain = chain_of(attachment.owner);
  const Texts seen = texts_in(tables, nat(family, chain));
  const Texts wanted = chain_rules(family, attachment, pod);
  if (seen == wanted) return std::nullopt;
  for (const std::string& rule : wanted) {
    if (!contains(seen, rule)) return missing_rule(family, {"nat", chain, rule});
  }
  return cat("chain '", chain, "' has other rules than the container's, or in another order");
}

std::optional<std::string> missing_of(NfSocket* socket, Family family, const Attachment& attachment,
                                      const PodAddresses& pod) {
  const ChainId chain = nat(family, chain_of(attachment.owner));
  for (const auto variant : {XtablesVariant::kNft, XtablesVariant::kLegacy}) {
    Tables tables(socket, variant);
    if (!tables.has_chain(chain)) continue;
    auto why = missing_in_chain(tables, family, attachment, pod);
    if (!why) why = missing_entry(tables, family, attachment);
    if (!why) why = missing_shared(tables, family, attachment.options);
    return why;
  }
  return cat("chain '", chain.chain, "' of ", family == Family::kIpv4 ? "iptables'" : "ip6tables'",
             " table nat is missing");
}

}  // namespace

std::optional<std::string> missing(NfSocket* socket, const Attachment& attachment,
                                   const PodAddresses& pod) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const bool wanted = std::any_of(attachment.claims.begin(), attachment.claims.end(),
                                    [&](const Claim& claim) { return claim.key.family == family; });
    if (!wanted) continue;
    if (auto why = missing_of(socket, family, attachment, pod)) return why;
  }
  return std::nullopt;
}

}  // namespace portmap::iptables

#include <algorithm>

#include "libcni/common/error.h"
#include "plugins/portmap/iptables/chains.h"

namespace portmap::iptables {

namespace {

namespace nf = netlink::nf;
using cni::cat;
using cni::Words;
using plugins::xt::nat;
using plugins::xt::Tables;

using Saved = std::vector<Words>;

// The message is the reference plugin's, which names iptables for both families.
std::string not_found(Family family, std::string_view what) {
  return cat("could not check ", family == Family::kIpv4 ? "ipv4" : "ipv6", " dnat: ", what);
}

std::string missing_rule(Family family, const RuleText& rule) {
  return not_found(family, cat("rule [[", rule.text, "]] in chain ", rule.chain,
                               " not found in table ", rule.table));
}

bool contains(const Saved& saved, const std::string& rule) {
  return std::ranges::find(saved, cni::words_of(rule)) != saved.end();
}

std::optional<std::string> missing_shared(Tables& tables, const Wanted& wanted) {
  for (const RuleText& rule : wanted.shared) {
    const auto saved = tables.saved_rules(id_of(wanted.family, rule));
    if (!contains(saved, rule.text)) return missing_rule(wanted.family, rule);
  }
  return std::nullopt;
}

// iptables-save can print conditions in other words: only the other matches are compared.
bool is_entry(const Words& seen, const Words& wanted, bool has_conditions) {
  if (!has_conditions) return seen == wanted;
  // "-p P", and "-m comment --comment C -m multiport --dports L": see entry_rules().
  const auto protocol = wanted.begin() + 2, ports = wanted.begin() + 10;
  const auto has = [&](auto first, auto last) {
    return std::search(seen.begin(), seen.end(), first, last) != seen.end();
  };
  return has(wanted.begin(), protocol) && has(protocol, ports);
}

std::optional<std::string> missing_entry(Tables& tables, const Wanted& wanted) {
  const Attachment& attachment = wanted.attachment;
  const std::string chain = chain_of(attachment.owner);
  Saved seen = tables.saved_rules(nat(wanted.family, kDnatChain));
  std::erase_if(seen, [&](const Words& rule) { return !leads_to(rule, chain); });
  const bool has_conditions = !attachment.options.conditions(wanted.family).empty();
  for (const std::string& rule : wanted.entries) {
    const Words words = cni::words_of(rule);
    const bool exists = std::ranges::any_of(
        seen, [&](const Words& one) { return is_entry(one, words, has_conditions); });
    if (!exists) return missing_rule(wanted.family, {"nat", kDnatChain, rule});
  }
  if (seen.size() == wanted.entries.size()) return std::nullopt;
  return cat("chain '", kDnatChain, "' has rules for '", chain, "' that are not the container's");
}

std::optional<std::string> missing_in_chain(Tables& tables, const Wanted& wanted) {
  const std::string chain = chain_of(wanted.attachment.owner);
  const Saved seen = tables.saved_rules(nat(wanted.family, chain));
  if (std::equal(
          seen.begin(), seen.end(), wanted.chain.begin(), wanted.chain.end(),
          [](const Words& one, const std::string& rule) { return one == cni::words_of(rule); })) {
    return std::nullopt;
  }
  for (const std::string& rule : wanted.chain) {
    if (!contains(seen, rule)) return missing_rule(wanted.family, {"nat", chain, rule});
  }
  return cat("chain '", chain, "' has other rules than the container's, or in another order");
}

std::optional<std::string> missing_of(Tables& tables, const Wanted& wanted) {
  auto why = missing_in_chain(tables, wanted);
  if (!why) why = missing_entry(tables, wanted);
  if (!why) why = missing_shared(tables, wanted);
  return why;
}

bool has_exceptions(Tables& tables, Family family, const Owner& owner) {
  const Saved seen = tables.saved_rules(nat(family, chain_of(owner)));
  const auto ours = exceptions(family);
  return std::ranges::any_of(ours, [&](const std::string& rule) { return contains(seen, rule); });
}

}  // namespace

std::optional<std::string> missing(nf::NfSocket* socket, const Attachment& attachment,
                                   const std::vector<Mapping>* unrecorded) {
  for (const Family family : netlink::kFamilies) {
    if (!attachment.has(family)) continue;
    auto tables = tables_with(socket, family, attachment.owner);
    if (!tables) {
      return not_found(
          family, cat("chain ", chain_of(attachment.owner), " not found in iptables table nat"));
    }
    const bool is_ours = unrecorded == nullptr || has_exceptions(*tables, family, attachment.owner);
    const Wanted wanted = wanted_of(family, attachment, is_ours ? nullptr : unrecorded);
    if (auto why = missing_of(*tables, wanted)) return why;
  }
  return std::nullopt;
}

bool has_own_chain(nf::NfSocket* socket, const Owner& owner) {
  return std::ranges::any_of(netlink::kFamilies, [&](Family family) {
    auto tables = tables_with(socket, family, owner);
    return tables && has_exceptions(*tables, family, owner);
  });
}

void check(nf::NfSocket* socket, const Attachment& attachment,
           const std::vector<Mapping>* unrecorded) {
  const auto why = missing(socket, attachment, unrecorded);
  if (why) throw cni::Error(cni::Code::kInternal, *why);
}

}  // namespace portmap::iptables

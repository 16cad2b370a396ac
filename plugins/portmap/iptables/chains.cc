#include "plugins/portmap/iptables/chains.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "netlink/nf/match.h"
#include "plugins/common/firewall/iptables_restore.h"
#include "plugins/names/chains.h"
#include "plugins/portmap/conflict.h"
#include "plugins/portmap/iptables/lost_claims.h"
#include "plugins/portmap/port_claims.h"

namespace portmap::iptables {

namespace {

namespace nf = netlink::nf;
using cni::cat;
using cni::Code;
using plugins::RestoreTool;
using plugins::XtablesVariant;
using plugins::xt::nat;
using plugins::xt::Tables;

// The rule numbers, from 1, of the jumps to the chain.
std::vector<std::size_t> places_of(const std::vector<nf::Rule>& rules, const std::string& chain) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (nf::target_of(rules[i].exprs) == chain) out.push_back(i + 1);
  }
  return out;
}

bool starts_with_word(const nf::Bytes& bytes, std::uint32_t word) {
  return bytes.size() >= sizeof word && std::memcmp(bytes.data(), &word, sizeof word) == 0;
}

// -m mark, -j MARK: iptables-nft uses nft expressions, or the extension, whose struct begins with
// the mark (xt_mark_mtinfo1, xt_mark_tginfo2).
bool has_mark(const nf::Rule& rule, std::uint32_t mark) {
  return std::ranges::any_of(rule.exprs, [&](const nf::Expr& expr) {
    const auto* const xt = std::get_if<nf::Xt>(&expr);
    const auto* const bits = std::get_if<nf::Bitwise>(&expr);
    const auto* const cmp = std::get_if<nf::Cmp>(&expr);
    return (xt != nullptr && (xt->name == "mark" || xt->name == "MARK") &&
            starts_with_word(xt->info, mark)) ||
           (bits != nullptr && starts_with_word(bits->flip, mark)) ||
           (cmp != nullptr && starts_with_word(cmp->data, mark));
  });
}

// Whether a rule of iptables-nft is the shared one, as far as a first ADD compares it: to run
// iptables-save would double the time of that ADD.
bool is_shared(const nf::Rule& rule, const RuleText& wanted, const Options& options) {
  if (wanted.chain == kGuardChain) {
    const auto side = wanted.text.starts_with("-s") ? nf::Side::kSource : nf::Side::kDestination;
    return nf::address_of(rule.exprs, side, Family::kIpv4).has_value();
  }
  if (wanted.chain == kSetMarkChain || wanted.chain == kMasqChain) {
    return has_mark(rule, 1U << options.mark_bit);
  }
  return wanted.text.ends_with(cat("-j ", nf::target_of(rule.exprs)));
}

bool has_shared(Tables& tables, Family family, const RuleText& wanted, const Options& options) {
  const auto rules = tables.rules(id_of(family, wanted));
  return std::ranges::any_of(rules,
                             [&](const nf::Rule& one) { return is_shared(one, wanted, options); });
}

// Compares all of the rule. If it is missing, a jump to the same CNI chain is a damaged one.
bool has_saved(Tables& tables, Family family, const RuleText& rule, Existing& seen) {
  const auto saved = tables.saved_rules(id_of(family, rule));
  const cni::Words wanted = cni::words_of(rule.text);
  if (std::ranges::count(saved, wanted) != 0) return true;
  if (!wanted.back().starts_with(names::kHostPortPrefix)) return false;
  for (const cni::Words& one : saved) {
    if (!leads_to(one, wanted.back())) continue;
    seen.damaged.push_back({rule.table, rule.chain, plugins::xt::in_quotes(one)});
  }
  return false;
}

Existing read_existing(Tables tables, const Wanted& wanted) {
  const Family family = wanted.family;
  const Attachment& attachment = wanted.attachment;
  const std::string chain = chain_of(attachment.owner);
  Existing seen;
  for (const std::string& name :
       {std::string(kDnatChain), std::string(kSetMarkChain), std::string(kMasqChain), chain}) {
    if (tables.has_chain(nat(family, name))) seen.chains.insert(name);
  }
  const bool is_exact = tables.variant() == XtablesVariant::kLegacy || seen.chains.contains(chain);
  for (const RuleText& rule : wanted.shared) {
    const bool exists = is_exact ? has_saved(tables, family, rule, seen)
                                 : has_shared(tables, family, rule, attachment.options);
    if (exists) seen.rules.push_back(rule);
  }
  // No rule can jump to a chain that does not exist, and the list can be long.
  if (seen.chains.contains(chain)) {
    seen.entries = places_of(tables.rules(nat(family, kDnatChain)), chain);
  }
  return seen;
}

// If another program changes the ruleset meanwhile, iptables-nft starts again and treats chains
// that were created in between as its own; before 1.8.6 it flushed them ("nft: Fix for concurrent
// noflush restore calls"). Shared chains are therefore created over netlink, which accepts existing
// ones.
void create_shared_chains(nf::NfSocket& socket, Family family, const Options& options) {
  std::vector<const char*> chains{kDnatChain};
  if (options.snat && options.external_set_mark_chain.empty()) {
    chains.insert(chains.end(), {kSetMarkChain, kMasqChain});
  }
  nf::Batch batch;
  for (const char* const chain : chains) {
    const nf::ChainId id = nat(family, chain);
    if (socket.has_chain(id)) continue;
    if (batch.empty()) batch.add(nf::Table{id.family, id.table});
    batch.add(nf::Chain{id});
  }
  if (!batch.empty()) socket.commit(batch);
}

std::vector<ChainRemoval> removals_in(Tables& tables, Family family, const Owner& owner) {
  std::vector<ChainRemoval> out;
  for (ChainRemoval one : {ChainRemoval{kDnatChain, chain_of(owner), {}},
                           ChainRemoval{kSnatChain, obsolete_chain_of(owner), {}}}) {
    if (!tables.has_chain(nat(family, one.chain))) continue;
    one.entries = places_of(tables.rules(nat(family, one.parent)), one.chain);
    out.push_back(std::move(one));
  }
  return out;
}

void plan_remove(nf::NfSocket& socket, Family family, const Owner& owner, nf::Batch& batch) {
  const std::pair<const char*, std::string> chains[] = {{kDnatChain, chain_of(owner)},
                                                        {kSnatChain, obsolete_chain_of(owner)}};
  for (const auto& [parent, chain] : chains) {
    const nf::ChainId id = nat(family, chain);
    if (!socket.has_chain(id)) continue;
    for (const nf::Rule& rule : socket.rules(nat(family, parent))) {
      if (nf::target_of(rule.exprs) == chain) batch.remove(rule);
    }
    batch.flush(id).remove(id);
  }
}

void remove_legacy(Family family, const Owner& owner) {
  Tables tables(nullptr, XtablesVariant::kLegacy);
  if (removals_in(tables, family, owner).empty()) return;
  plugins::restore_planned(plugins::require_legacy_restore(family, chain_of(owner)),
                           [&]() -> std::string {
                             Tables now(nullptr, XtablesVariant::kLegacy);
                             const auto removals = removals_in(now, family, owner);
                             return removals.empty() ? "" : rules_to_remove(removals);
                           });
}

void remove_from(nf::NfSocket* socket, Family family, const Owner& owner) {
  if (socket != nullptr) {
    socket->commit_planned([&](nf::Batch& batch) { plan_remove(*socket, family, owner, batch); });
  }
  remove_legacy(family, owner);
}

void require_mark_chain(nf::NfSocket* socket, Family family, const Options& options) {
  const std::string& chain = options.external_set_mark_chain;
  if (!options.snat || chain.empty()) return;
  const auto variant = plugins::require_restore(family).variant;
  if (Tables(socket, variant).has_chain(nat(family, chain))) return;
  const char* const tool = family == Family::kIpv4 ? "iptables" : "ip6tables";
  throw cni::Error(Code::kInvalidConfig,
                   cat("externalSetMarkChain: ", tool, " has no chain '", chain, "' in table nat"));
}

void add_family(nf::NfSocket* socket, const Wanted& wanted) {
  const Family family = wanted.family;
  const Attachment& attachment = wanted.attachment;
  if (!attachment.has(family)) return remove_from(socket, family, attachment.owner);
  const RestoreTool tool = plugins::require_restore(family);
  const bool legacy = tool.variant == XtablesVariant::kLegacy;
  // Rules of the other variant: the name iptables-restore meant that one at an earlier ADD.
  if (!legacy) {
    remove_legacy(family, attachment.owner);
  } else if (socket != nullptr) {
    socket->commit_planned(
        [&](nf::Batch& batch) { plan_remove(*socket, family, attachment.owner, batch); });
  }
  const auto add = [&] {
    plugins::restore_planned(tool, [&] {
      if (!legacy && socket != nullptr) create_shared_chains(*socket, family, attachment.options);
      return rules_to_add(wanted, read_existing({socket, tool.variant}, wanted));
    });
  };
  if (attachment.options.conditions(family).empty()) return add();
  cni::during(attachment.options.describe_conditions(family), add);
}

// The attachments that share the chain of a container and network, the oldest first; of `own` what
// it is to have, or nothing without claims.
std::vector<Attachment> sharing(const StateDir* state, const Attachment& own) {
  std::vector<Attachment> out;
  if (state != nullptr) out = attachments_of(*state, own.owner.container_hash());
  std::erase_if(out, [&](const Attachment& one) {
    return one.backend != BackendName::kIptables || one.owner.network != own.owner.network;
  });
  const auto itself =
      std::ranges::find_if(out, [&](const Attachment& one) { return one.owner == own.owner; });
  itself == out.end() ? out.push_back(own) : void(*itself = own);
  std::erase_if(out, [](const Attachment& one) { return one.claims.empty(); });
  return out;
}

// An attachment with the claims of all that share its chain.
Attachment merged(const Attachment& one, const std::vector<Attachment>& all) {
  Attachment out = one;
  out.claims.clear();
  for (const Attachment& other : all) {
    for (const Claim& claim : other.claims) {
      if (out.claim_of(claim.key) == nullptr) out.claims.push_back(claim);
    }
  }
  return out;
}

Owners claimants(const Context& context, const Attachment& wanted) {
  Owners out;
  if (context.state == nullptr) return out;
  if (!PortClaims(*context.state).exist()) restore_claims(context.socket, *context.state);
  for (const Claim& claim : wanted.claims) {
    Tag tag = PortClaims(*context.state).claimant(claim.key);
    if (!tag.empty()) out[claim.key] = std::move(tag);
  }
  return out;
}

void apply(const Context& context, const Plan& plan) {
  const Owner& owner = plan.wanted.owner;
  if (plan.before) {
    for (const Claim& claim : plan.before->claims)
      PortClaims(*context.state).release(claim.key, Tag(owner));
  }
  for (const Claim& claim : plan.granted) PortClaims(*context.state).put(claim.key, owner);
  const Attachment all = merged(plan.wanted, sharing(context.state, plan.wanted));
  // An attachment with ports keeps them if this fails.
  plan.before ? replace(context.socket, all, nullptr) : add(context.socket, all);
}

// Rules are removed before what names their owner. The attachment keeps its other claims if it
// exists; without any its state file is left to the caller.
std::vector<Claim> remove_claims(const Context& context, const Attachment& attachment) {
  const auto known =
      context.state == nullptr ? std::nullopt : find_attachment(*context.state, attachment.owner);
  Attachment rest = known.value_or(attachment);
  std::erase_if(rest.claims,
                [&](const Claim& one) { return attachment.claim_of(one.key) != nullptr; });
  const Attachment remaining = rest;
  if (!rest.claims.empty() && !owner_exists(rest)) rest.claims.clear();
  const std::vector<Attachment> left = sharing(context.state, rest);
  if (left.empty()) {
    remove(context.socket, rest.owner);
  } else {
    add(context.socket, merged(rest.claims.empty() ? left[0] : rest, left));
  }
  if (known && !remaining.claims.empty()) put_attachment(*context.state, remaining);
  std::vector<Claim> gone;
  for (const Claim& claim : attachment.claims) {
    if (context.state != nullptr && PortClaims(*context.state).release(claim.key, rest.tag())) {
      gone.push_back(claim);
    }
  }
  return gone;
}

void check_shared(const Context& context, const Attachment& attachment) {
  check(context.socket, merged(attachment, sharing(context.state, attachment)));
}

std::vector<Claim> gc(const Context& context, const Stale& stale) {
  cni::BestEffort each;
  for (const Owner& owner : owners(context.socket, stale.network)) {
    if (!stale.has_container(owner.container_id)) continue;
    each(owner.as_owner(), [&] { remove(context.socket, owner); });
  }
  each.finish();
  return {};
}

}  // namespace

void add(nf::NfSocket* socket, const Attachment& attachment) {
  try {
    replace(socket, attachment, nullptr);
  } catch (const std::exception&) {
    cni::BestEffort()("roll back", [&] { remove(socket, attachment.owner); });
    throw;
  }
}

void replace(nf::NfSocket* socket, const Attachment& attachment,
             const std::vector<Mapping>* unrecorded) {
  for (const Family family : netlink::kFamilies) {
    if (attachment.has(family)) require_mark_chain(socket, family, attachment.options);
  }
  for (const Family family : netlink::kFamilies) {
    add_family(socket, wanted_of(family, attachment, unrecorded));
  }
}

void remove(nf::NfSocket* socket, const Owner& owner) {
  cni::BestEffort each;
  if (socket != nullptr) {
    each("nf_tables", [&] {
      socket->commit_planned([&](nf::Batch& batch) {
        for (const Family family : netlink::kFamilies) plan_remove(*socket, family, owner, batch);
      });
    });
  }
  for (const Family family : netlink::kFamilies) {
    each("iptables", [&] { remove_legacy(family, owner); });
  }
  each.finish();
}

std::vector<Owner> owners(nf::NfSocket* socket, const std::string& network) {
  std::vector<Owner> out;
  for (const XtablesVariant variant : cni::kXtablesVariants) {
    Tables tables(socket, variant);
    for (const Family family : netlink::kFamilies) {
      for (const nf::Rule& rule : tables.rules(nat(family, kDnatChain))) {
        const auto comment = nf::xt_comment_of(rule.exprs);
        const Owner owner{network, container_in(comment, network), {}};
        if (owner.container_id.empty()) continue;
        if (nf::target_of(rule.exprs) == chain_of(owner)) out.push_back(owner);
      }
    }
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::optional<Tables> tables_with(nf::NfSocket* socket, Family family, const Owner& owner) {
  for (const auto variant : cni::kXtablesVariants) {
    Tables tables(socket, variant);
    if (tables.has_chain(nat(family, chain_of(owner)))) return tables;
  }
  return std::nullopt;
}

bool has_chain(nf::NfSocket* socket, const Owner& owner) {
  return tables_with(socket, Family::kIpv4, owner) || tables_with(socket, Family::kIpv6, owner);
}

nf::ChainId id_of(Family family, const RuleText& rule) {
  return rule.table == "nat" ? nat(family, rule.chain) : plugins::xt::filter(family, rule.chain);
}

const Backend kBackend{claimants, apply, remove_claims, check_shared, gc};

}  // namespace portmap::iptables

#include "plugins/portmap/nftables/table.h"

#include <linux/netfilter/nf_tables.h>

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "netlink/attributes.h"
#include "netlink/nf/match.h"
#include "plugins/common/firewall/nft_tool.h"
#include "plugins/names/tables.h"
#include "plugins/portmap/nftables/elements.h"
#include "plugins/portmap/nftables/rules.h"

namespace portmap::nft {

namespace {

namespace nf = netlink::nf;
using cni::cat;
using netlink::Attributes;

constexpr const char* kNeedsNft =
    "conditionsV4 and conditionsV6 in nft syntax require the package nftables";

nf::ChainId conditions_chain(const Layout& layout) {
  return {table_family(layout.family), table_of(layout.options), kConditions};
}

std::vector<Attributes> rules_in(const std::vector<nf::Bytes>& seen, std::string_view chain) {
  std::vector<Attributes> out;
  for (const nf::Bytes& rule : seen) {
    const Attributes one(rule);
    if (one.find(NFTA_RULE_CHAIN).text() == chain) out.push_back(one);
  }
  return out;
}

// Expressions that nft compiled are not compared, but for the jump at their end.
bool has_conditions(const std::vector<nf::Bytes>& seen, const Layout& layout) {
  const auto rules = rules_in(seen, kConditions);
  if (rules.size() != 1) return false;
  const auto rule = nf::decode_rule(table_family(layout.family), rules[0]);
  return nf::target_of(rule.exprs) == kHostports;
}

// 0.1.0 had the ports of `masqAll` in the sets masq_all and masq_all_hostip, which its pods need as
// long as they live: another pod's ADD leaves the rules.
bool is_of_masq_all(const Attributes& rule, Family family) {
  const auto exprs = nf::decode_rule(table_family(family), rule).exprs;
  return std::ranges::any_of(exprs, [](const nf::Expr& one) {
    const auto* const lookup = std::get_if<nf::Lookup>(&one);
    return lookup != nullptr && lookup->set.starts_with("masq_all");
  });
}

bool has_rules(std::vector<Attributes> found, const TableChain& wanted, Family family) {
  const auto is_same = [&] {
    return std::equal(
        found.begin(), found.end(), wanted.rules.begin(), wanted.rules.end(),
        [](const Attributes& one, const auto& rule) { return shows(one, rule.exprs); });
  };
  if (is_same()) return true;
  const auto others =
      std::erase_if(found, [&](const Attributes& rule) { return is_of_masq_all(rule, family); });
  return others != 0 && is_same();
}

// The first chain whose rules are not those of the layout; empty without one.
std::string flawed_chain(const std::vector<nf::Bytes>& seen, const Layout& layout) {
  for (const TableChain& wanted : chains_of(layout)) {
    const auto found = rules_in(seen, wanted.chain.id.chain);
    if (!has_rules(found, wanted, layout.family)) return wanted.chain.id.str();
  }
  const bool is_whole = !layout.has_conditions() || has_conditions(seen, layout);
  return is_whole ? "" : conditions_chain(layout).str();
}

/// The table's rules, and the layout that the attachment needs: rules of other pods stay.
struct Comparison {
  std::vector<nf::Bytes> seen;
  Layout layout;
};

Comparison compare(nf::NfSocket& socket, Family family, const Attachment& attachment) {
  const Options& options = attachment.options;
  Comparison out{socket.raw_table_rules(table_family(family), table_of(options)),
                 {family, options}};
  out.layout.prefixes = prefixes_in(out.seen, family);
  for (const Cidr& subnet : masqueraded(attachment, family)) {
    if (!subnet.ip.is_loopback()) out.layout.prefixes.insert(subnet.prefix);
  }
  return out;
}

// Replaces all rules but those with conditions.
void put_table(const Layout& layout, nf::Batch& batch) {
  const auto family = table_family(layout.family);
  const std::string table = table_of(layout.options);
  batch.add(nf::Table{family, table, "hostPorts of pods"});
  for (auto& set : sets_of(layout.family, table)) batch.add(std::move(set));
  if (layout.has_conditions()) batch.add(nf::Chain{conditions_chain(layout)});
  for (TableChain& one : chains_of(layout)) {
    const nf::ChainId id = one.chain.id;
    batch.add(std::move(one.chain)).flush(id);
    for (auto& rule : one.rules) batch.add(std::move(rule));
  }
}

// Replaces the rule with conditions.
std::string nft_text(const Layout& layout) {
  const std::string chain =
      cat(name_of(table_family(layout.family)), " ", table_of(layout.options), " ", kConditions);
  return cat("flush chain ", chain, "\nadd rule ", chain, " ",
             text_of(layout.options.conditions(layout.family)), " fib daddr type local jump ",
             kHostports, "\n");
}

// A new table is removed if nft rejects the conditions.
void put_conditional(nf::NfSocket& socket, const Layout& layout) {
  const auto family = table_family(layout.family);
  const std::string table = table_of(layout.options);
  const bool is_new = !socket.has_table(family, table);
  nf::Batch objects, removal;
  put_table(layout, objects);
  socket.commit(objects);
  try {
    cni::during(layout.options.describe_conditions(layout.family),
                [&] { plugins::run_nft(nft_text(layout), kNeedsNft); });
  } catch (const cni::Error&) {
    if (is_new) socket.commit(removal.remove(nf::DeleteTable{family, table}));
    throw;
  }
}

}  // namespace

std::string table_of(const Options& options) {
  const Options usual;
  if (options.mark_bit == usual.mark_bit && !options.has_conditions()) return names::kHostPortTable;
  std::string text = cat(options.mark_bit);
  for (const auto* list : {&options.conditions_v4, &options.conditions_v6}) {
    text += '\n';
    for (const std::string& one : *list) text += one + '\0';
  }
  return cat(names::kHostPortTable, "_", cni::sha512_hex(text, 8));
}

nf::TableFamily table_family(Family family) {
  return family == Family::kIpv4 ? nf::TableFamily::kIp : nf::TableFamily::kIp6;
}

void require_nft() { plugins::require_nft(kNeedsNft); }

bool usable(nf::NfSocket& socket) {
  const Options usual;
  if (socket.has_table(table_family(Family::kIpv4), table_of(usual))) return true;
  nf::Batch batch;
  put_table({Family::kIpv4, usual, {Ip::any(Family::kIpv4).bits()}}, batch);
  return socket.accepts(batch);
}

void ensure_table(nf::NfSocket& socket, Family family, const Attachment& attachment,
                  nf::Batch& batch) {
  auto [seen, layout] = compare(socket, family, attachment);
  if (flawed_chain(seen, layout).empty()) return;
  // The elements of other pods need their rules too.
  layout.prefixes.merge(prefixes_of(socket, family, table_of(layout.options)));
  if (layout.has_conditions()) return put_conditional(socket, layout);
  put_table(layout, batch);
}

std::string flaw_in(nf::NfSocket& socket, Family family, const Attachment& attachment) {
  const auto [seen, layout] = compare(socket, family, attachment);
  if (seen.empty()) {
    const std::string table = table_of(layout.options);
    return cat("table '", name_of(table_family(family)), " ", table,
               socket.has_table(table_family(family), table) ? "' has no rules" : "' is missing");
  }
  const std::string chain = flawed_chain(seen, layout);
  return chain.empty() ? "" : cat("the rules of chain '", chain, "' are not those that ADD adds");
}

}  // namespace portmap::nft

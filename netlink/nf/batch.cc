#include "netlink/nf/batch.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>

#include "netlink/nf/userdata.h"
#include "netlink/types/error.h"
#include "netlink/types/hints.h"

namespace netlink::nf {

namespace {

void put_chain(Message& m, const ChainId& id) {
  m.put(NFTA_CHAIN_TABLE, id.table);
  m.put(NFTA_CHAIN_NAME, id.chain);
}

void put_rule_place(Message& m, const ChainId& id) {
  m.put(NFTA_RULE_TABLE, id.table);
  m.put(NFTA_RULE_CHAIN, id.chain);
}

Message encode_one(const Table& table) {
  Message m = nf_tables_message(NFT_MSG_NEWTABLE, NLM_F_CREATE, table.family);
  m.put(NFTA_TABLE_NAME, table.name);
  m.put_be32(NFTA_TABLE_FLAGS, table.is_owned ? NFT_TABLE_F_OWNER : 0);
  // Kernels before 5.10 know no comments here and ignore them.
  if (!table.comment.empty()) m.put(NFTA_TABLE_USERDATA, comment_userdata(table.comment));
  return m;
}

Message encode_one(const Chain& chain) {
  Message m = nf_tables_message(NFT_MSG_NEWCHAIN, NLM_F_CREATE, chain.id.family);
  put_chain(m, chain.id);
  if (chain.hook) {
    if (chain.hook->policy) m.put_be32(NFTA_CHAIN_POLICY, *chain.hook->policy);
    m.put(NFTA_CHAIN_TYPE, chain.hook->type);
    m.nest(NFTA_CHAIN_HOOK, [&] {
      m.put_be32(NFTA_HOOK_HOOKNUM, chain.hook->number);
      m.put_be32(NFTA_HOOK_PRIORITY, static_cast<std::uint32_t>(chain.hook->priority));
      if (!chain.hook->device.empty()) m.put(NFTA_HOOK_DEV, chain.hook->device);
    });
  }
  if (!chain.comment.empty()) m.put(NFTA_CHAIN_USERDATA, comment_userdata(chain.comment));
  return m;
}

Message encode_one(const Rule& rule) {
  const int flags = NLM_F_CREATE | (rule.first ? 0 : NLM_F_APPEND);
  Message m = nf_tables_message(NFT_MSG_NEWRULE, flags, rule.chain.family);
  put_rule_place(m, rule.chain);
  m.nest(NFTA_RULE_EXPRESSIONS, [&] {
    for (const Expr& expr : rule.exprs) encode(m, expr);
  });
  if (!rule.comment.empty()) m.put(NFTA_RULE_USERDATA, comment_userdata(rule.comment));
  return m;
}

Message encode_one(const FlushChain& flush) {
  Message m = nf_tables_message(NFT_MSG_DELRULE, 0, flush.id.family);
  put_rule_place(m, flush.id);
  return m;
}

Message encode_one(const DeleteRule& rule) {
  Message m = nf_tables_message(NFT_MSG_DELRULE, 0, rule.chain.family);
  put_rule_place(m, rule.chain);
  m.put_be64(NFTA_RULE_HANDLE, rule.handle);
  return m;
}

Message encode_one(const DeleteChain& chain) {
  Message m = nf_tables_message(NFT_MSG_DELCHAIN, 0, chain.id.family);
  put_chain(m, chain.id);
  return m;
}

Message encode_one(const DeleteTable& table) {
  Message m = nf_tables_message(NFT_MSG_DELTABLE, 0, table.family);
  m.put(NFTA_TABLE_NAME, table.name);
  return m;
}

struct ChangeEncoder {
  std::uint32_t number;

  template <class One>
  std::vector<Message> operator()(const One& change) const {
    return {encode_one(change)};
  }
  std::vector<Message> operator()(const Set& set) const { return {encode_set(set, number)}; }
  std::vector<Message> operator()(const DeleteSet& set) const { return {encode_set(set)}; }
  std::vector<Message> operator()(const AddElements& c) const { return encode_elements(c); }
  std::vector<Message> operator()(const DeleteElements& c) const { return encode_elements(c); }
};

struct Describer {
  std::string operator()(const Table& t) const {
    return cat("add table '", name_of(t.family), " ", t.name, "'");
  }
  std::string operator()(const Chain& c) const { return cat("add chain '", c.id.str(), "'"); }
  std::string operator()(const Rule& r) const { return cat("add rule '", r.chain.str(), "'"); }
  std::string operator()(const FlushChain& f) const {
    return cat("flush chain '", f.id.str(), "'");
  }
  std::string operator()(const DeleteRule& r) const {
    return cat("delete rule '", r.chain.str(), " handle ", r.handle, "'");
  }
  std::string operator()(const DeleteChain& c) const {
    return cat("delete chain '", c.id.str(), "'");
  }
  std::string operator()(const DeleteTable& t) const {
    return cat("delete table '", name_of(t.family), " ", t.name, "'");
  }
  std::string operator()(const Set& s) const {
    return cat("add ", s.data ? "map" : "set", " '", s.id.str(), "'");
  }
  std::string operator()(const DeleteSet& s) const { return cat("delete set '", s.id.str(), "'"); }
  std::string operator()(const AddElements& e) const {
    return cat("add elements '", e.set.str(), "'");
  }
  std::string operator()(const DeleteElements& e) const {
    return cat("delete elements '", e.set.str(), "'");
  }
};

std::string hook_text(const Hook& hook) {
  std::string out = cat(" type ", hook.type, " hook ", hook.number, " prio ", hook.priority);
  if (hook.policy) out += *hook.policy == NF_ACCEPT ? " policy accept" : " policy drop";
  return out;
}

std::string comment_text(const std::string& comment) {
  return comment.empty() ? "" : cat(" comment \"", comment, "\"");
}

std::string rule_text(const Rule& rule) {
  std::string out = cat(rule.chain.str(), "\n");
  for (const Expr& expr : rule.exprs) out += cat("  ", text(expr), "\n");
  if (rule.comment.empty()) return out += '\n';
  out += "  userdata = { ";
  for (const std::uint8_t byte : comment_userdata(rule.comment)) {
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, std::isprint(byte) != 0 ? "%c" : "\\x%02x", byte);
    out += escaped;
  }
  return out += " }\n";
}

const char* fib_module(TableFamily family) {
  if (family == TableFamily::kIp) return "nft_fib_ipv4";
  return family == TableFamily::kIp6 ? "nft_fib_ipv6" : "nft_fib_inet";
}

}  // namespace

std::string ChainId::str() const { return cat(name_of(family), " ", table, " ", chain); }

std::vector<Message> encode(const Change& change, std::uint32_t number) {
  return std::visit(ChangeEncoder{number}, change);
}

Error refusal_of(const Change& change, int error, const std::string& kernel_text) {
  const std::string hint = module_hint(change, error);
  return {describe(change), error,
          cat(kernel_text, kernel_text.empty() || hint.empty() ? "" : "; ", hint)};
}

std::string module_hint(const Change& change, int error) {
  if (error != ENOENT) return "";
  if (const auto* const chain = std::get_if<Chain>(&change)) {
    return chain->hook && chain->hook->type == "nat" ? load_hint("nft_chain_nat") : "";
  }
  const auto* const rule = std::get_if<Rule>(&change);
  if (rule == nullptr) return "";
  for (const Expr& expr : rule->exprs) {
    if (std::holds_alternative<Masq>(expr)) return load_hint("nft_masq");
    if (std::holds_alternative<Nat>(expr)) return load_hint("nft_nat");
    if (std::holds_alternative<Fib>(expr)) return load_hint(fib_module(rule->chain.family));
  }
  return "";
}

std::string describe(const Change& change) { return std::visit(Describer{}, change); }

std::string text(const Change& change) {
  if (const auto* const rule = std::get_if<Rule>(&change)) return rule_text(*rule);
  std::string out = describe(change);
  std::erase(out, '\'');
  if (const auto* const table = std::get_if<Table>(&change)) out += comment_text(table->comment);
  if (const auto* const chain = std::get_if<Chain>(&change)) {
    if (chain->hook) out += hook_text(*chain->hook);
    out += comment_text(chain->comment);
  }
  if (const auto* const set = std::get_if<Set>(&change)) out = cat("add ", text(*set));
  if (const auto* const added = std::get_if<AddElements>(&change)) {
    if (added->exclusive) out += " exclusive";
    for (const Element& element : added->elements) out += cat("\n  ", text(element));
  }
  if (const auto* const deleted = std::get_if<DeleteElements>(&change)) {
    for (const Bytes& key : deleted->keys) out += cat("\n  ", text(Element{key}));
  }
  return out += '\n';
}

std::string rule_comment(const Attributes& attributes) {
  return text_in(attributes.find(NFTA_RULE_USERDATA).value, kUserdataComment);
}

Rule decode_rule(TableFamily family, const Attributes& attributes) {
  Rule rule{.chain = {family, attributes.text(NFTA_RULE_TABLE), attributes.text(NFTA_RULE_CHAIN)},
            .exprs = {},
            .comment = rule_comment(attributes),
            .handle = attributes.be64(NFTA_RULE_HANDLE)};
  for (const Attribute& one : attributes.nested(NFTA_RULE_EXPRESSIONS)) {
    if (one.type == NFTA_LIST_ELEM) rule.exprs.push_back(decode_expr(one.nested()));
  }
  return rule;
}

bool shows(const Attributes& attributes, const Exprs& exprs) {
  auto expected = exprs.begin();
  for (const Attribute& one : attributes.nested(NFTA_RULE_EXPRESSIONS)) {
    if (one.type != NFTA_LIST_ELEM) continue;
    if (expected == exprs.end()) return false;
    if (decode_expr(one.nested()) != *expected++) return false;
  }
  return expected == exprs.end();
}

bool shows_chain(const std::vector<Bytes>& rules, std::string_view chain,
                 const std::vector<Exprs>& wanted) {
  std::vector<Attributes> found;
  for (const Bytes& rule : rules) {
    const Attributes one(rule);
    if (one.find(NFTA_RULE_CHAIN).text() == chain) found.push_back(one);
  }
  return std::equal(found.begin(), found.end(), wanted.begin(), wanted.end(), shows);
}

Chain decode_chain(TableFamily family, const Attributes& attributes) {
  Chain chain{.id = {family, attributes.text(NFTA_CHAIN_TABLE), attributes.text(NFTA_CHAIN_NAME)}};
  const Attributes hook = attributes.nested(NFTA_CHAIN_HOOK);
  if (!hook.has(NFTA_HOOK_HOOKNUM)) return chain;
  chain.hook = Hook{.type = attributes.text(NFTA_CHAIN_TYPE),
                    .number = hook.be32(NFTA_HOOK_HOOKNUM),
                    .priority = static_cast<std::int32_t>(hook.be32(NFTA_HOOK_PRIORITY))};
  if (attributes.has(NFTA_CHAIN_POLICY)) {
    chain.hook->policy = attributes.be32(NFTA_CHAIN_POLICY);
  }
  return chain;
}

std::string Batch::dump() const {
  std::string out;
  for (const Change& change : changes_) out += text(change);
  return out;
}

}  // namespace netlink::nf

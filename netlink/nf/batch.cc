#include "netlink/nf/batch.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>

#include "netlink/types/error.h"

namespace netlink::nf {

namespace {

// The first entry of the userdata of tables, chains and rules (libnftnl/udata.h), the same number
// for all three.
constexpr std::uint8_t kUdataComment = 0;

Head head(int message, int flags, TableFamily family) {
  return {.type = static_cast<std::uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | message),
          .flags = static_cast<std::uint16_t>(flags),
          .family = family};
}

// Type, length, text with its NUL.
Bytes userdata(const std::string& comment) {
  if (comment.size() > 253) throw Error(cat("set the comment '", comment, "'"), EMSGSIZE);
  Bytes out(comment.size() + 3);
  out[0] = kUdataComment;
  out[1] = static_cast<std::uint8_t>(comment.size() + 1);
  std::copy(comment.begin(), comment.end(), out.begin() + 2);
  return out;
}

std::string comment_in(Attributes::View userdata) {
  while (userdata.size() >= 2) {
    const std::uint8_t type = userdata[0];
    const std::size_t length = userdata[1];
    if (length + 2 > userdata.size()) break;
    const auto value = userdata.subspan(2, length);
    if (type == kUdataComment) {
      return {value.begin(), value.end() - (value.empty() || value.back() != 0 ? 0 : 1)};
    }
    userdata = userdata.subspan(2 + length);
  }
  return {};
}

void put_chain(Message& m, const ChainId& id) {
  m.put(NFTA_CHAIN_TABLE, id.table);
  m.put(NFTA_CHAIN_NAME, id.chain);
}

void put_rule_place(Message& m, const ChainId& id) {
  m.put(NFTA_RULE_TABLE, id.table);
  m.put(NFTA_RULE_CHAIN, id.chain);
}

struct Encoder {
  Message operator()(const Table& table) const {
    Message m(head(NFT_MSG_NEWTABLE, NLM_F_CREATE, table.family));
    m.put(NFTA_TABLE_NAME, table.name);
    m.put_be32(NFTA_TABLE_FLAGS, 0);
    // Kernels before 5.10 know no comments here and ignore them.
    if (!table.comment.empty()) m.put(NFTA_TABLE_USERDATA, userdata(table.comment));
    return m;
  }
  Message operator()(const Chain& chain) const {
    Message m(head(NFT_MSG_NEWCHAIN, NLM_F_CREATE, chain.id.family));
    put_chain(m, chain.id);
    if (chain.hook) {
      if (chain.hook->policy) m.put_be32(NFTA_CHAIN_POLICY, *chain.hook->policy);
      m.put(NFTA_CHAIN_TYPE, chain.hook->type);
      m.nest(NFTA_CHAIN_HOOK, [&] {
        m.put_be32(NFTA_HOOK_HOOKNUM, chain.hook->number);
        m.put_be32(NFTA_HOOK_PRIORITY, static_cast<std::uint32_t>(chain.hook->priority));
      });
    }
    if (!chain.comment.empty()) m.put(NFTA_CHAIN_USERDATA, userdata(chain.comment));
    return m;
  }
  Message operator()(const Rule& rule) const {
    Message m(head(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, rule.chain.family));
    put_rule_place(m, rule.chain);
    m.nest(NFTA_RULE_EXPRESSIONS, [&] {
      for (const Expr& expr : rule.exprs) encode(m, expr);
    });
    if (!rule.comment.empty()) m.put(NFTA_RULE_USERDATA, userdata(rule.comment));
    return m;
  }
  Message operator()(const FlushChain& flush) const {
    Message m(head(NFT_MSG_DELRULE, 0, flush.id.family));
    put_rule_place(m, flush.id);
    return m;
  }
  Message operator()(const DeleteRule& rule) const {
    Message m(head(NFT_MSG_DELRULE, 0, rule.chain.family));
    put_rule_place(m, rule.chain);
    m.put_be64(NFTA_RULE_HANDLE, rule.handle);
    return m;
  }
  Message operator()(const DeleteChain& chain) const {
    Message m(head(NFT_MSG_DELCHAIN, 0, chain.id.family));
    put_chain(m, chain.id);
    return m;
  }
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
  for (const std::uint8_t byte : userdata(rule.comment)) {
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, std::isprint(byte) != 0 ? "%c" : "\\x%02x", byte);
    out += escaped;
  }
  return out += " }\n";
}

}  // namespace

std::string ChainId::str() const { return cat(name_of(family), " ", table, " ", chain); }

Message encode(const Change& change) { return std::visit(Encoder{}, change); }

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
  return out += '\n';
}

std::string rule_comment(const Attributes& attributes) {
  return comment_in(attributes.find(NFTA_RULE_USERDATA));
}

Rule decode_rule(TableFamily family, const Attributes& attributes) {
  Rule rule{.chain = {family, attributes.text(NFTA_RULE_TABLE), attributes.text(NFTA_RULE_CHAIN)},
            .exprs = {},
            .comment = rule_comment(attributes),
            .handle = attributes.be64(NFTA_RULE_HANDLE)};
  Attributes list = attributes.nested(NFTA_RULE_EXPRESSIONS);
  while (const auto element = list.next()) {
    if (element->type == NFTA_LIST_ELEM)
      rule.exprs.push_back(decode_expr(Attributes(element->value)));
  }
  return rule;
}

std::string Batch::dump() const {
  std::string out;
  for (const Change& change : changes_) out += text(change);
  return out;
}

}  // namespace netlink::nf

#include "plugins/firewall/iptables_rules.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/xt_conntrack.h>

#include <algorithm>
#include <cstring>

#include "libcni/common/error.h"
#include "netlink/nf/match.h"
#include "plugins/common/firewall/xt_tables.h"

namespace firewall::iptables {

namespace {

namespace nf = netlink::nf;
using cni::cat;
using netlink::Cidr;

constexpr const char* kStates = "RELATED,ESTABLISHED";

Cidr whole(const Ip& ip) { return {ip, ip.bits()}; }

std::string comment_with(std::string_view policy) {
  return cat("CNI firewall plugin rules (ingressPolicy: ", policy, ")");
}

// Bridges share rules. Releases that know only same-bridge look for its comment.
std::string shared_comment(Policy policy) {
  return comment_with(policy == Policy::kIsolated ? "same-bridge|isolated" : "same-bridge");
}

std::string link_in(const nf::Bytes& data) {
  return {data.begin(), std::ranges::find(data, std::uint8_t{0})};
}

std::string target_of(const nf::Verdict& verdict) {
  switch (verdict.code) {
    case NF_ACCEPT:
      return "ACCEPT";
    case NF_DROP:
      return "DROP";
    case NFT_RETURN:
      return "RETURN";
    default:
      return verdict.chain;
  }
}

// -m conntrack --ctstate RELATED,ESTABLISHED, and nothing else of that match.
bool asks_for_replies(const nf::Xt& xt) {
  constexpr unsigned kReplies =
      XT_CONNTRACK_STATE_BIT(IP_CT_ESTABLISHED) | XT_CONNTRACK_STATE_BIT(IP_CT_RELATED);
  xt_conntrack_mtinfo2 info{};  // revision 3 begins with it
  if (xt.name != "conntrack" || xt.info.size() < sizeof info) return false;
  std::memcpy(&info, xt.info.data(), sizeof info);
  return info.match_flags == XT_CONNTRACK_STATE && info.invert_flags == 0 &&
         info.state_mask == kReplies;
}

/// Reads a rule's expressions in turn.
struct ExprReader {
  FilterRule& rule;
  std::uint32_t loaded = kNothing;  // the last fact about the packet

  void operator()(const nf::Meta& meta) { loaded = meta.key; }
  void operator()(const nf::Cmp& cmp) {
    const bool equal = cmp.op == NFT_CMP_EQ;
    const bool is_name = std::ranges::find(cmp.data, 0) != cmp.data.end();  // not "eth+"
    if (loaded == NFT_META_OIFNAME && is_name) {
      rule.out = link_in(cmp.data);
      rule.other_out = !equal;
    } else if (loaded == NFT_META_IIFNAME && is_name && equal) {
      rule.in = link_in(cmp.data);
    } else if (loaded != kAddress || !equal) {
      rule.foreign = true;
    }
  }
  void operator()(const nf::Payload&) { loaded = kAddress; }
  void operator()(const nf::Bitwise&) {}
  void operator()(const nf::Xt& xt) {
    if (!xt.comment.empty()) {
      rule.comment = xt.comment;
    } else if (asks_for_replies(xt)) {
      rule.replies = true;
    } else {
      rule.foreign = true;
    }
  }
  void operator()(const nf::Verdict& verdict) { rule.target = target_of(verdict); }
  void operator()(const nf::Counter&) {}
  template <class Other>
  void operator()(const Other&) {
    rule.foreign = true;
  }

  // No value of NFT_META_*.
  static constexpr std::uint32_t kNothing = ~0U, kAddress = ~0U - 1;
};

void read_option(const std::string& option, const std::string& value, bool inverted,
                 FilterRule& out) {
  if (inverted && option != "-o") out.foreign = true;
  if (option == "-s") {
    out.source = Cidr::parse(value);
  } else if (option == "-d") {
    out.destination = Cidr::parse(value);
  } else if (option == "-i") {
    out.in = value;
  } else if (option == "-o") {
    out.out = value;
    out.other_out = inverted;
  } else if (option == "--ctstate" && value == kStates) {
    out.replies = true;
  } else if (option == "--comment") {
    out.comment = value;
  } else if (option == "-j") {
    out.target = value;
  } else if (option != "-m") {
    out.foreign = true;
  }
}

std::size_t place_of(const std::vector<FilterRule>& rules, const FilterRule& wanted) {
  const auto at =
      std::ranges::find_if(rules, [&](const FilterRule& one) { return one.equals(wanted); });
  return static_cast<std::size_t>(at - rules.begin());
}

bool contains(const std::vector<FilterRule>& rules, const FilterRule& wanted) {
  return place_of(rules, wanted) < rules.size();
}

std::string insert(const FilterRule& rule) {
  return cat("-I ", rule.chain, " 1 ", rule.text(), "\n");
}
std::string append(const FilterRule& rule) {
  return cat("-A ", rule.chain, " ", rule.text(), "\n");
}

// Whether rules of a policy exist, whoever added them.
bool has_stages(const Existing& seen) {
  return std::ranges::any_of(
      seen.stages, [](const FilterRule& rule) { return !rule.in.empty() || !rule.out.empty(); });
}

bool in_order(const Existing& seen, const FilterRule& stage) {
  return place_of(seen.parent, stage) < place_of(seen.parent, forward_jump());
}

// The rules of CNI-FORWARD.
std::vector<FilterRule> accepting_rules(const Wanted& wanted) {
  if (wanted.policy_alone) return {};
  std::vector<FilterRule> out = address_rules(wanted.addresses);
  out.insert(out.begin(), admin_jump(wanted.admin_chain));
  return out;
}

std::string parent_lines(const Wanted& wanted, const Existing& seen) {
  std::string out;
  const bool has_forward = contains(seen.parent, forward_jump());
  const bool adds_forward = !has_forward && !wanted.policy_alone;
  if (adds_forward) out += insert(forward_jump());
  const FilterRule stage = stage_jump(wanted.policy);
  const bool needs_stage = wanted.policy != Policy::kOpen || has_stages(seen);
  if (!needs_stage || (!adds_forward && in_order(seen, stage))) return out;
  const std::size_t at = place_of(seen.parent, stage);
  if (at < seen.parent.size()) out += cat("-D ", kParent, " ", seen.parent[at].text(), "\n");
  return out + insert(stage);
}

std::string stage_lines(const Wanted& wanted, const Existing& seen) {
  std::string out;
  for (const FilterRule& rule : stage_rules(wanted.link, wanted.policy)) {
    if (contains(seen.stages, rule)) continue;
    out += rule.target == "RETURN" ? append(rule) : insert(rule);
  }
  return out;
}

}  // namespace

std::string FilterRule::text() const {
  std::string words;
  if (source) words += cat("-s ", source->str(), " ");
  if (destination) words += cat("-d ", destination->str(), " ");
  if (!in.empty()) words += cat("-i ", in, " ");
  if (!out.empty()) words += cat(other_out ? "! -o " : "-o ", out, " ");
  if (replies) words += cat("-m conntrack --ctstate ", kStates, " ");
  if (!comment.empty()) words += cat("-m comment --comment ", plugins::xt::in_quotes(comment), " ");
  return words + cat("-j ", target);
}

bool FilterRule::equals(const FilterRule& other) const {
  return chain == other.chain && in == other.in && out == other.out &&
         other_out == other.other_out && source == other.source &&
         destination == other.destination && replies == other.replies && target == other.target &&
         foreign == other.foreign;
}

FilterRule rule_from(const nf::Rule& rule, Family family) {
  FilterRule out{.chain = rule.chain.chain, .target = ""};
  ExprReader reader{out};
  for (const nf::Expr& expr : rule.exprs) std::visit(reader, expr);
  using nf::Side;
  out.source = nf::address_of(rule.exprs, Side::kSource, family);
  out.destination = nf::address_of(rule.exprs, Side::kDestination, family);
  return out;
}

// "-m" has nothing to say.
FilterRule rule_from(const std::string& chain, const cni::Words& saved) {
  FilterRule out{.chain = chain, .target = ""};
  bool inverted = false;
  for (std::size_t i = 0; i + 1 < saved.size();) {
    if (saved[i] == "!") {
      inverted = true;
      ++i;
      continue;
    }
    read_option(saved[i], saved[i + 1], inverted, out);
    inverted = false;
    i += 2;
  }
  return out;
}

FilterRule forward_jump() {
  return {.chain = kParent, .target = kForward, .comment = "CNI firewall plugin rules"};
}

FilterRule admin_jump(const std::string& admin_chain) {
  return {
      .chain = kForward, .target = admin_chain, .comment = "CNI firewall plugin admin overrides"};
}

FilterRule stage_jump(Policy policy) {
  return {.chain = kParent, .target = kStage1, .comment = shared_comment(policy)};
}

std::vector<FilterRule> address_rules(const std::vector<Ip>& addresses) {
  std::vector<FilterRule> out;
  for (const Ip& ip : addresses) {
    out.push_back(
        {.chain = kForward, .destination = whole(ip), .replies = true, .target = "ACCEPT"});
    out.push_back({.chain = kForward, .source = whole(ip), .target = "ACCEPT"});
  }
  return out;
}

std::vector<FilterRule> stage_rules(const std::string& link, Policy policy) {
  const std::string why = comment_with(name_of(policy));
  const std::string shared = shared_comment(policy);
  std::vector<FilterRule> out;
  out.push_back({.chain = kStage1,
                 .in = link,
                 .out = link,
                 .other_out = true,
                 .target = kStage2,
                 .comment = why});
  if (policy == Policy::kIsolated) {
    out.push_back({.chain = kStage1, .in = link, .out = link, .target = "DROP", .comment = why});
  }
  out.push_back({.chain = kStage1, .target = "RETURN", .comment = shared});
  out.push_back({.chain = kStage2, .out = link, .target = "DROP", .comment = shared});
  out.push_back({.chain = kStage2, .target = "RETURN", .comment = shared});
  return out;
}

std::vector<std::string> chains_of(const Wanted& wanted) {
  std::vector<std::string> out;
  if (!wanted.policy_alone) out = {kForward, wanted.admin_chain};
  if (wanted.policy != Policy::kOpen) out.insert(out.end(), {kStage1, kStage2});
  return out;
}

bool Existing::has(const FilterRule& rule) const {
  return contains(parent, rule) || contains(forward, rule) || contains(stages, rule);
}

std::string rules_to_add(const Wanted& wanted, const Existing& seen) {
  std::string chains, lines;
  // ":CHAIN" instead would flush a chain that another program has just created.
  for (const std::string& chain : chains_of(wanted)) {
    if (!seen.chains.contains(chain)) chains += cat("-N ", chain, "\n");
  }
  if (wanted.policy != Policy::kOpen) lines += stage_lines(wanted, seen);
  for (const FilterRule& rule : accepting_rules(wanted)) {
    if (contains(seen.forward, rule)) continue;
    lines += rule.target == "ACCEPT" ? append(rule) : insert(rule);
  }
  lines += parent_lines(wanted, seen);
  return chains.empty() && lines.empty() ? "" : cat("*filter\n", chains, lines, "COMMIT\n");
}

// Jumps have their chain in the sentence. Go prints the arguments without quotes.
static std::string in_reference_words(const FilterRule& rule) {
  std::string text = rule.text();
  std::erase(text, '"');
  const std::string chain = rule.target == "ACCEPT" ? "" : cat(rule.chain, " ");
  return cat("expected ", chain, "rule [", text, "] not found");
}

std::optional<std::string> missing(const Wanted& wanted, const Existing& seen) {
  std::vector<FilterRule> rules = accepting_rules(wanted);
  if (!wanted.policy_alone) rules.insert(rules.begin(), forward_jump());
  const bool has_policy = wanted.policy != Policy::kOpen;
  if (has_policy) {
    const auto stages = stage_rules(wanted.link, wanted.policy);
    rules.push_back(stage_jump(wanted.policy));
    rules.insert(rules.end(), stages.begin(), stages.end());
  }
  for (const FilterRule& rule : rules) {
    if (seen.has(rule)) continue;
    return in_reference_words(rule);
  }
  if (!has_policy || in_order(seen, stage_jump(wanted.policy))) return std::nullopt;
  return cat("the jump to '", kForward, "' precedes the one to '", kStage1, "' in chain ", kParent);
}

}  // namespace firewall::iptables

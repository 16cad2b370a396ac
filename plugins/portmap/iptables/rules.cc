#include "plugins/portmap/iptables/rules.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

#include "libcni/common/error.h"
#include "plugins/common/firewall/xt_tables.h"

namespace portmap::iptables {

namespace {

using cni::cat;
using plugins::xt::in_quotes;

constexpr std::size_t kPortsPerRule = 15;  // XT_MULTI_PORTS

std::string comment_start(const std::string& network) {
  return cat("dnat name: \"", network, "\" id: \"");
}

// A line break would begin another command.
bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }

std::string conditions_of(Family family, const Options& options) {
  std::string out;
  for (const std::string& word : options.conditions(family)) {
    if (std::ranges::any_of(word, is_control)) {
      throw cni::Error(cni::Code::kInvalidConfig,
                       cat("expected no control character: ", in_quotes(word)));
    }
    const bool plain = word.find_first_of(" \"'\\") == std::string::npos && !word.empty();
    out += cat(" ", plain ? word : in_quotes(word));
  }
  return out;
}

std::string mark_of(const Options& options) {
  char text[sizeof "0x80000000/0x80000000"];
  const std::uint32_t mark = 1U << options.mark_bit;
  std::snprintf(text, sizeof text, "0x%x/0x%x", mark, mark);
  return text;
}

// " -d A -p tcp -m tcp --dport N", behind a source.
std::string match_of(const Claim& claim) {
  const std::string_view protocol = name_of(claim.key.protocol);
  std::string out;
  if (const auto& address = claim.key.address) {
    out = cat("-d ", address->str(), "/", address->bits(), " ");
  }
  return out + cat("-p ", protocol, " -m ", protocol, " --dport ", claim.key.port);
}

// Traffic from the pod's subnet is masqueraded, because a bridge would pass the pod's answer to its
// neighbour directly; traffic from 127.0.0.1, because the pod has that address too.
void put_marks(std::vector<std::string>& out, const Claim& claim, const Options& options,
               const Cidr& pod) {
  if (!options.snat) return;
  const std::string& own = options.external_set_mark_chain;
  const std::string rest = cat(match_of(claim), " -j ", own.empty() ? kSetMarkChain : own);
  if (options.masq_all) return out.push_back(rest);
  out.push_back(cat("-s ", pod.network().str(), " ", rest));
  if (pod.ip.is_v4()) out.push_back(cat("-s 127.0.0.1/32 ", rest));
}

// Sorted by name, as in the reference plugin.
std::map<std::string_view, std::vector<std::uint16_t>> ports_by_protocol(
    Family family, const std::vector<Claim>& claims) {
  std::map<std::string_view, std::vector<std::uint16_t>> out;
  for (const Claim& claim : claims) {
    if (claim.key.family == family) out[name_of(claim.key.protocol)].push_back(claim.key.port);
  }
  return out;
}

std::string lines_of(std::string_view chain, const std::vector<std::string>& rules) {
  std::string out;
  for (const std::string& rule : rules) out += cat("-A ", chain, " ", rule, "\n");
  return out;
}

// Removes jumps from the last to the first, so that their numbers stay valid. If another program
// moved rules meanwhile, a jump remains, -X fails, and with it the whole transaction.
std::string removal_of(const ChainRemoval& removal) {
  std::string out;
  for (auto place = removal.entries.rbegin(); place != removal.entries.rend(); ++place) {
    out += cat("-D ", removal.parent, " ", *place, "\n");
  }
  return out + cat("-F ", removal.chain, "\n-X ", removal.chain, "\n");
}

bool has(const Existing& seen, const RuleText& rule) {
  return std::ranges::find(seen.rules, rule) != seen.rules.end();
}

std::vector<RuleText> of_table(const std::vector<RuleText>& rules, std::string_view table) {
  std::vector<RuleText> out;
  for (const RuleText& rule : rules) {
    if (rule.table == table) out.push_back(rule);
  }
  return out;
}

std::string removal_of_damaged(const Existing& seen, std::string_view table) {
  std::string out;
  for (const RuleText& rule : of_table(seen.damaged, table)) {
    out += cat("-D ", rule.chain, rule.text, "\n");
  }
  return out;
}

std::string shared_lines(const std::vector<RuleText>& rules, const Existing& seen) {
  std::string chains, lines = removal_of_damaged(seen, "nat");
  for (const char* const chain : {kDnatChain, kSetMarkChain, kMasqChain}) {
    const bool named = std::ranges::any_of(rules, [&](const RuleText& rule) {
      return rule.chain == chain || rule.text.ends_with(cat(" ", chain));
    });
    // ":CHAIN" instead would flush a chain that another program has just created.
    if (named && !seen.chains.contains(chain)) chains += cat("-N ", chain, "\n");
  }
  for (const RuleText& rule : rules) {
    if (has(seen, rule)) continue;
    lines += rule.first ? cat("-I ", rule.chain, " 1 ", rule.text, "\n") : rule.str() + "\n";
  }
  return chains + lines;
}

// Replaces all rules of the guard: the chain has no rules of other programs.
std::string guard_part(const std::vector<RuleText>& rules, const Existing& seen) {
  const bool complete = std::ranges::all_of(rules, [&](const RuleText& r) { return has(seen, r); });
  if (complete) return {};
  std::string out =
      cat("*filter\n:", kGuardChain, " - [0:0]\n", removal_of_damaged(seen, "filter"));
  for (const RuleText& rule : rules) {
    if (rule.chain == kGuardChain) out += rule.str() + "\n";
    if (rule.first && !has(seen, rule)) out += cat("-I ", rule.chain, " 1 ", rule.text, "\n");
  }
  return out + "COMMIT\n";
}

}  // namespace

std::string chain_of(const Owner& owner) {
  return names::host_port_chain(owner.network, owner.container_id);
}

std::string obsolete_chain_of(const Owner& owner) {
  return names::obsolete_host_port_chain(owner.network, owner.container_id);
}

std::string comment_of(const Owner& owner) {
  const std::string whole = cat(comment_start(owner.network), owner.container_id, "\"");
  // The reference plugin appends three dots; iptables truncates to 255 bytes (XT_MAX_COMMENT_LEN).
  return whole.size() > 255 ? whole.substr(0, 253) + ".." : whole;
}

std::string container_in(const std::string& comment, const std::string& network) {
  return plugins::xt::id_in(comment, comment_start(network));
}

Owner owner_in(const std::string& comment) {
  const std::string start = comment_start("");
  const std::size_t before = start.find('"') + 1;  // of the name, in which no quotation mark can be
  const std::size_t end = comment.find('"', std::min(before, comment.size()));
  if (end == std::string::npos) return {};
  Owner out{comment.substr(before, end - before), {}, {}};
  out.container_id = container_in(comment, out.network);
  return out.container_id.empty() ? Owner{} : out;
}

std::string RuleText::str() const { return cat("-A ", chain, " ", text); }

bool leads_to(const cni::Words& rule, std::string_view chain) {
  return rule.size() > 1 && rule[rule.size() - 2] == "-j" && rule.back() == chain;
}

std::vector<RuleText> shared_rules(Family family, const Options& options) {
  const std::string local = cat("-m addrtype --dst-type LOCAL -j ", kDnatChain);
  std::vector<RuleText> out{{"nat", "PREROUTING", local}, {"nat", "OUTPUT", local}};
  if (!options.snat) return out;
  if (options.external_set_mark_chain.empty()) {
    const std::string mark = mark_of(options);
    out.push_back(
        {"nat", kSetMarkChain,
         cat("-m comment --comment \"CNI portfwd masquerade mark\" -j MARK --set-xmark ", mark)});
    out.push_back({"nat", kMasqChain, cat("-m mark --mark ", mark, " -j MASQUERADE")});
    out.push_back({"nat", "POSTROUTING",
                   cat("-m comment --comment \"CNI portfwd requiring masquerade\" -j ", kMasqChain),
                   true});
  }
  if (family == Family::kIpv6) return out;
  for (const char* const side : {"-d", "-s"}) {
    out.push_back({"filter", kGuardChain,
                   cat(side, " 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate DNAT -j DROP")});
  }
  out.push_back({"filter", "INPUT", cat("-j ", kGuardChain), true});
  return out;
}

// Traffic that is not redirected. IPv6 has no route_localnet: the pod would get a connection to
// [::1] with that source and could not answer. In IPv4 only the node itself may send to or from
// 127.0.0.0/8, else a neighbour would reach the port of 127.0.0.1 through route_localnet. Traffic
// of the node leaves by lo here, received traffic has no output interface yet. "! -o lo" matches
// without an output interface since kernel commit cb81572e8cb5 in iptables-nft, and always in
// legacy. "! -i lo" would match both.
std::vector<std::string> exceptions(Family family) {
  if (family == Family::kIpv6) return {"-d ::1/128 -j RETURN"};
  return {"-d 127.0.0.0/8 ! -o lo -j RETURN", "-s 127.0.0.0/8 ! -o lo -j RETURN"};
}

std::vector<std::string> chain_rules(Family family, const Attachment& attachment) {
  std::vector<std::string> out = exceptions(family);
  for (const Claim& claim : attachment.claims) {
    if (claim.key.family != family) continue;
    // The subnet of another attachment's claim is unknown: only its own address is masqueraded.
    const auto& own = attachment.pod.of(family);
    const Cidr source =
        own && own->contains(claim.target) ? *own : Cidr{claim.target, claim.target.bits()};
    put_marks(out, claim, attachment.options, source);
    out.push_back(cat(match_of(claim), " -j DNAT --to-destination ", claim.target_str()));
  }
  return out;
}

std::vector<std::string> entry_rules(Family family, const Attachment& attachment) {
  const std::string conditions = conditions_of(family, attachment.options);
  const std::string comment = in_quotes(comment_of(attachment.owner));
  std::vector<std::string> out;
  for (const auto& [protocol, ports] : ports_by_protocol(family, attachment.claims)) {
    for (std::size_t at = 0; at < ports.size(); at += kPortsPerRule) {
      std::string list;
      for (std::size_t i = at; i < std::min(at + kPortsPerRule, ports.size()); ++i) {
        list += cat(list.empty() ? "" : ",", ports[i]);
      }
      out.push_back(cat("-p ", protocol, " -m comment --comment ", comment,
                        " -m multiport --dports ", list, conditions, " -j ",
                        chain_of(attachment.owner)));
    }
  }
  return out;
}

Wanted wanted_of(Family family, const Attachment& attachment,
                 const std::vector<Mapping>* unrecorded) {
  Wanted out{family, attachment, chain_rules(family, attachment), entry_rules(family, attachment),
             shared_rules(family, attachment.options)};
  if (unrecorded == nullptr) return out;
  const auto extra = static_cast<std::ptrdiff_t>(exceptions(family).size());
  out.chain.erase(out.chain.begin(), out.chain.begin() + extra);
  std::erase_if(out.shared, [](const RuleText& rule) { return rule.table == "filter"; });
  Attachment all = attachment;  // also ports of the other family
  all.claims.clear();
  for (const Mapping& one : *unrecorded) {
    all.claims.push_back(
        {{family, one.protocol, one.host_port}, Ip::any(family), one.container_port});
  }
  out.entries = entry_rules(family, all);
  return out;
}

// The guard first: each table is a transaction of its own, and rules that need the guard must not
// exist without it.
std::string rules_to_add(const Wanted& wanted, const Existing& seen) {
  const std::string chain = chain_of(wanted.attachment.owner);
  std::string out = guard_part(of_table(wanted.shared, "filter"), seen) + "*nat\n";
  out += shared_lines(of_table(wanted.shared, "nat"), seen);
  if (seen.chains.contains(chain)) out += removal_of({kDnatChain, chain, seen.entries});
  out += cat(":", chain, " - [0:0]\n");
  out += lines_of(chain, wanted.chain);
  out += lines_of(kDnatChain, wanted.entries);
  return out + "COMMIT\n";
}

std::string rules_to_remove(const std::vector<ChainRemoval>& all) {
  std::string out = "*nat\n";
  for (const ChainRemoval& removal : all) out += removal_of(removal);
  return out + "COMMIT\n";
}

}  // namespace portmap::iptables

#include "cnitool/doctor/firewall.h"

#include "cnitool/doctor/read_rule.h"
#include "libcni/plugin/iptables_save.h"
#include "netlink/nf/legacy_table.h"
#include "netlink/nf/socket.h"
#include "netlink/types/error.h"
#include "plugins/names/tables.h"

namespace tool::doctor {

namespace {

namespace nf = netlink::nf;
using netlink::cat;
using netlink::Family;

constexpr nf::TableFamily kTableFamilies[] = {nf::TableFamily::kInet, nf::TableFamily::kIp,
                                              nf::TableFamily::kIp6};
// linux/netfilter.h and linux/netfilter/nf_tables.h
constexpr std::uint32_t kPreroutingHook = 0, kForwardHook = 2, kPostroutingHook = 4,
                        kDropPolicy = 0;

ForwardRules rules_of(nf::NfSocket& socket, const nf::ChainId& chain, ForwardChain& into) {
  ForwardRules out;
  for (const nf::Rule& rule : socket.rules(chain)) {
    ForwardRule& one = out.emplace_back(read_rule(socket, rule));
    one.insertion = into.of_iptables
                        ? cat(into.v4 ? "iptables" : "ip6tables", " -I ", chain.chain)
                        : cat("nft insert rule ", chain.str(), " position ", rule.handle);
    one.place = into.of_iptables ? out.size() : 0;
    const std::string jump = one.jump;
    if (jump.empty() || !into.others.emplace(jump, ForwardRules()).second) continue;
    into.others[jump] = rules_of(socket, {chain.family, chain.table, jump}, into);
  }
  return out;
}

// The plugin firewall's table is the only one of this project that filters forwarded packets.
bool is_of_forwarded(const nf::Chain& chain) {
  if (!chain.hook || chain.hook->type != "filter") return false;
  if (chain.hook->number == kForwardHook) return true;
  const bool is_ours = chain.id.table.starts_with(names::kTablePrefix);
  return !is_ours &&
         (chain.hook->number == kPreroutingHook || chain.hook->number == kPostroutingHook);
}

Hook hook_of(const nf::Chain& chain) {
  return chain.hook->number == kForwardHook      ? Hook::kForward
         : chain.hook->number == kPreroutingHook ? Hook::kPrerouting
                                                 : Hook::kPostrouting;
}

void add_forward(nf::NfSocket& socket, const nf::Chain& chain, Firewall& into) {
  ForwardChain& out = into.forward.emplace_back(
      ForwardChain{.name = chain.id.str(),
                   .addition = cat("nft add rule ", chain.id.str()),
                   .of_iptables = chain.id.chain == "FORWARD" && chain.id.table == "filter",
                   .of_plugin = chain.id.table == names::kFirewallTable,
                   .hook = hook_of(chain),
                   .v4 = chain.id.family != nf::TableFamily::kIp6,
                   .v6 = chain.id.family != nf::TableFamily::kIp,
                   .drops = chain.hook->policy == kDropPolicy,
                   .rules = {}});
  if (out.of_iptables) out.addition = cat(out.v4 ? "iptables" : "ip6tables", " -A FORWARD");
  out.rules = rules_of(socket, chain.id, out);
}

void add_exemptions(const ForwardRules& rules, const std::string& chain, Family family,
                    Firewall& into) {
  using Effect = ForwardRule::Effect;
  const auto any = AddressSpan::of({netlink::Ip::any(family), 0});
  for (const ForwardRule& rule : rules) {
    if (rule.effect != Effect::kAccept && rule.effect != Effect::kReturn) continue;
    if (rule.source.empty() && !rule.has_other_sources) into.exemptions.push_back({chain, any});
    for (const AddressSpan& source : rule.source) into.exemptions.push_back({chain, source});
  }
}

void add_exemptions(nf::NfSocket& socket, Firewall& into) {
  for (const Family family : netlink::kFamilies) {
    const bool v4 = family == Family::kIpv4;
    const nf::ChainId chain{v4 ? nf::TableFamily::kIp : nf::TableFamily::kIp6, "nat",
                            "POSTROUTING"};
    ForwardRules rules;
    for (const nf::Rule& rule : socket.rules(chain)) rules.push_back(read_rule(socket, rule));
    add_exemptions(rules, chain.str(), family, into);
  }
}

std::string legacy_tool(Family family) {
  return family == Family::kIpv4 ? "iptables-legacy" : "ip6tables-legacy";
}

void add_legacy_forward(const cni::SavedTable& filter, Family family, Firewall& into) {
  const bool v4 = family == Family::kIpv4;
  const std::string tool = legacy_tool(family);
  const auto policy = filter.chains.find("FORWARD");
  ForwardChain out{.name = cat(tool, " filter FORWARD"),
                   .addition = cat(tool, " -A FORWARD"),
                   .of_iptables = true,
                   .v4 = v4,
                   .v6 = !v4,
                   .drops = policy != filter.chains.end() && policy->second == "DROP",
                   .rules = {}};
  for (const cni::SavedRule& saved : filter.rules) {
    auto& rules = saved.chain == "FORWARD" ? out.rules : out.others[saved.chain];
    ForwardRule& rule = rules.emplace_back(read_saved_rule(saved, filter));
    rule.insertion = cat(tool, " -I ", saved.chain);
    rule.place = rules.size();
  }
  into.forward.push_back(std::move(out));
}

void add_legacy(Firewall& into) {
  for (const Family family : netlink::kFamilies) {
    for (const std::string table : {"nat", "filter"}) {
      if (!nf::legacy_in_use(family, table)) continue;
      const auto saved = cni::read_saved(family, cni::XtablesVariant::kLegacy, table);
      if (!saved) {
        into.lacks_legacy_save = into.has_legacy_rules = true;  // for all that is known
        continue;
      }
      into.has_legacy_rules |= !saved->rules.empty();
      if (table == "filter") add_legacy_forward(*saved, family, into);
      if (table != "nat") continue;
      ForwardRules rules;
      for (const cni::SavedRule& rule : saved->rules) {
        if (rule.chain == "POSTROUTING") rules.push_back(read_saved_rule(rule, *saved));
      }
      add_exemptions(rules, cat(legacy_tool(family), " nat POSTROUTING"), family, into);
    }
  }
}

}  // namespace

Firewall read_firewall() {
  Firewall out;
  add_legacy(out);
  auto socket = nf::NfSocket::find();
  if (!socket) return out;
  for (const nf::TableFamily family : kTableFamilies) {
    for (const nf::Chain& chain : socket->chains(family)) {
      out.chains.push_back(chain.id);
      if (is_of_forwarded(chain)) add_forward(*socket, chain, out);
    }
  }
  add_exemptions(*socket, out);
  return out;
}

}  // namespace tool::doctor

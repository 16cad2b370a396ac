#include "cnitool/doctor/firewall.h"

#include <algorithm>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/networks.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/doctor/read_rule.h"
#include "cnitool/json_at.h"
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

bool is_for(const Node& node, const NatExemption& rule, const std::string& network) {
  const auto all = subnets(node);
  return std::ranges::any_of(all, [&](const Subnet& one) {
    return one.network == network && AddressSpan::of(one.range.subnet).overlaps(rule.source);
  });
}

bool is_masqueraded_by_nftables(const BridgeNetwork& one) {
  return one.masquerades && one.masquerade_backend != "iptables";
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

Findings check_backends(const Node& node) {
  const bool of_nft = std::ranges::any_of(node.firewall.chains, [](const auto& chain) {
    const std::string& name = chain.chain;
    const bool built_in = name == "FORWARD" || name == "POSTROUTING" || name == "PREROUTING" ||
                          name == "INPUT" || name == "OUTPUT";
    return built_in && (chain.table == "nat" || chain.table == "filter");
  });
  if (node.firewall.lacks_legacy_save) {
    return {{Level::kWarning, "tables of iptables-legacy are in use, and were not read",
             "iptables-legacy-save is not installed", "install the package iptables"}};
  }
  if (!of_nft || !node.firewall.has_legacy_rules) return {};
  return {{Level::kWarning, "both iptables-legacy and iptables-nft have rules",
           "each tool lists only its own rules, and a packet must pass both",
           "iptables-legacy-save; iptables-nft-save"}};
}

bool has_masquerading(const Node& node) {
  const auto all = bridge_networks(node);
  return std::ranges::any_of(all, is_masqueraded_by_nftables);
}

// ACCEPT of nftables ends no more than the chain that it is in (nft(8), "verdict statement"), and
// pods are masqueraded in another one; with iptables it is before their rules.
Findings check_exemptions(const Node& node) {
  Findings out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    if (!is_masqueraded_by_nftables(one)) continue;
    for (const NatExemption& rule : node.firewall.exemptions) {
      if (!is_for(node, rule, one.list->name)) continue;
      out.push_back(
          {Level::kWarning,
           cat("chain '", rule.chain, "' accepts packets from ", rule.source.str(),
               " without NAT, but network '", one.list->name, "' masquerades by nftables"),
           "the pods are masqueraded anyway; with ipMasqBackend iptables new pods are not",
           cat("in ", one.list->file,
               " set \"ipMasqBackend\": \"iptables\" in the plugin \"bridge\""),
           {one.list->name}});
    }
  }
  return out;
}

bool has_services(const Node& node) {
  return node.link("kube-ipvs0") != nullptr || node.link("kube-dummy-if") != nullptr;
}

// Proxies that use IPVS give the addresses of Services to a link of the node. kube-proxy exempts
// them in iptables' table nat alone; kube-router does not. Where portmap chose its backend before
// kube-proxy ran, its CHECK fails.
Findings check_services(const Node& node) {
  const bool is_kube_proxy = node.link("kube-ipvs0") != nullptr;
  Findings out;
  for (const cni::NetworkList& list : node.networks.lists) {
    const auto portmap = plugin_with(cni::Fact::kPorts, list);
    const std::string ports = live_host_ports(node, list.name);
    if (!portmap || ports.empty()) continue;
    if (member(*portmap, "conditionsV4") != nullptr) continue;
    const std::string backend = text_at(*portmap, "backend");
    const bool lacks_iptables = backend.empty() && !node.has_iptables;
    if (is_kube_proxy && backend != "nftables" && !lacks_iptables) continue;
    const std::string set = cat("in ", list.file, " set \"conditionsV4\": ",
                                backend == "iptables" ? R"(["!", "-d", "SERVICE_CIDR"])"
                                                      : R"(["ip", "daddr", "!=", "SERVICE_CIDR"])",
                                " in the plugin \"portmap\", then restart the pods");
    out.push_back({Level::kWarning,
                   cat("Services on ", ports, " lead to pods of network '", list.name, "'"),
                   cat("the addresses of Services belong to '",
                       is_kube_proxy ? "kube-ipvs0" : "kube-dummy-if",
                       "', and portmap redirects every local address"),
                   !is_kube_proxy   ? set
                   : lacks_iptables ? "install the package iptables; cnitool repair"
                                    : cat("in ", list.file,
                                          " remove \"backend\": \"nftables\" from the plugin "
                                          "\"portmap\", then restart the pods"),
                   {list.name}});
  }
  return out;
}

}  // namespace tool::doctor

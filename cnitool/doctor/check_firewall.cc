#include <algorithm>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"
#include "cnitool/json_at.h"
#include "cnitool/output.h"
#include "plugins/names/chains.h"

namespace tool::doctor {

namespace {

using netlink::Family;

bool is_of_firewalld(const ForwardChain& chain) {
  return chain.name.find("firewalld") != std::string::npos;
}

// Packets from pods of the network, or to them, as far as the chain sees them. The host veths of
// ptp have names that begin so.
std::vector<Traffic> traffic_of(const Node& node, const BridgeNetwork& network,
                                const ForwardChain& chain, bool from) {
  std::vector<Traffic> out;
  const std::string link = network.bridge.empty() ? "veth" : network.bridge;
  const auto add = [&](Family family, std::optional<netlink::Cidr> range) {
    if (!(family == Family::kIpv4 ? chain.v4 : chain.v6)) return;
    Traffic& one = out.emplace_back(Traffic{.family = family});
    (from ? one.in : one.out) = link;
    (from ? one.source : one.destination) = range;
  };
  for (const Subnet& one : subnets(node)) {
    if (one.network == network.list->name) add(one.range.start.family(), one.range.subnet);
  }
  for (const Family family : netlink::kFamilies) {
    if (out.empty() && uses(node, family, network.list->name)) add(family, {});
  }
  return out;
}

// The fate of the traffic that fares worst.
Fate fate_of(const Node& node, const BridgeNetwork& network, const ForwardChain& chain) {
  Fate out{.kind = Fate::Kind::kAccepted};
  for (const bool from : {true, false}) {
    for (const Traffic& one : traffic_of(node, network, chain, from)) {
      const Fate fate = fate_in(chain, one);
      const bool is_unclear = out.is_unclear || fate.is_unclear;
      if (fate.kind == Fate::Kind::kDropped || out.kind == Fate::Kind::kAccepted) out = fate;
      out.is_unclear = is_unclear;
    }
  }
  return out;
}

// "-i cni0" and "-o cni0", or by the subnets of ptp.
std::vector<std::string> matches_of(const Node& node, const BridgeNetwork& one,
                                    const ForwardChain& chain) {
  if (!one.bridge.empty()) {
    if (chain.of_iptables) return {cat("-i ", one.bridge), cat("-o ", one.bridge)};
    return {cat("iifname ", one.bridge), cat("oifname ", one.bridge)};
  }
  std::vector<std::string> out;
  for (const Traffic& traffic : traffic_of(node, one, chain, /*from=*/true)) {
    if (!traffic.source) continue;
    const std::string range = traffic.source->str();
    const char* const ip = traffic.family == Family::kIpv4 ? "ip" : "ip6";
    out.push_back(chain.of_iptables ? cat("-s ", range) : cat(ip, " saddr ", range));
    out.push_back(chain.of_iptables ? cat("-d ", range) : cat(ip, " daddr ", range));
  }
  return out;
}

// \param where begins a command that puts a rule into the chain.
std::string accept_command(const Node& node, const ForwardChain& chain, const BridgeNetwork& one,
                           const std::string& where) {
  std::string out;
  for (const std::string& match : matches_of(node, one, chain)) {
    out += cat(out.empty() ? "" : " && ", where, " ", match,
               chain.of_iptables ? " -j ACCEPT" : " accept");
  }
  return out;
}

bool concerns(const Node& node, const ForwardChain& chain) {
  return (chain.v4 && uses(node, Family::kIpv4)) || (chain.v6 && uses(node, Family::kIpv6));
}

bool is_for(const Node& node, const NatExemption& rule, const std::string& network) {
  const auto all = subnets(node);
  return std::any_of(all.begin(), all.end(), [&](const Subnet& one) {
    return one.network == network && AddressSpan::of(one.range.subnet).overlaps(rule.source);
  });
}

// Whether the plugin firewall accepts the network's pods in that chain. Its rules in nftables are
// in a table of their own, and an accept there ends no more than its own chain.
bool is_opened_by_plugin(const BridgeNetwork& one, const ForwardChain& chain) {
  if (!one.firewall) return false;
  if (chain.of_plugin) return *one.firewall == "nftables" || one.firewall->empty();
  if (*one.firewall == "nftables") return false;
  if (*one.firewall == "firewalld") return is_of_firewalld(chain);
  return is_of_firewalld(chain) ? one.firewall->empty() : chain.of_iptables;
}

std::string backend_remedy(const BridgeNetwork& one, const char* backend) {
  return cat("in ", one.list->file, " set \"backend\": \"", backend,
             "\" in the plugin \"firewall\"");
}

// Recommends no rule in a chain of the plugin firewall: it could connect networks that are
// isolated. In other chains it is the last rule, so that packets that others drop stay dropped.
std::string forward_remedy(const Node& node, const BridgeNetwork& one, const ForwardChain& chain) {
  if (chain.of_plugin && !one.firewall) {
    return cat("in ", one.list->file, " add the plugin \"firewall\"");
  }
  if (chain.of_plugin) return backend_remedy(one, "nftables");
  if (one.firewall && chain.of_iptables) return backend_remedy(one, "iptables");
  if (node.firewall.has_chain("ufw-user-forward") && !one.bridge.empty()) {
    return cat("ufw route allow in on ", one.bridge, " && ufw route allow out on ", one.bridge);
  }
  return accept_command(node, chain, one, chain.addition);
}

std::string live_host_ports(const Node& node, const std::string& network) {
  std::set<std::string> out;
  for (const AttachmentState& one : node.attachments) {
    if (one.key.network != network || !one.is_alive() || !node.which.has(one.key)) continue;
    for (const HostPort& port : one.host_ports) {
      out.insert(cat("hostPort ", port.host, "/", port.protocol));
    }
  }
  return joined({out.begin(), out.end()});
}

// The chain without the rules of the plugin firewall, which accepts what pods send, and replies.
ForwardChain without_plugin(ForwardChain chain) {
  chain.others[names::kForwardChain].clear();
  return chain;
}

// New connections to hostPorts are neither.
void add_closed_ports(const Node& node, const BridgeNetwork& one, const ForwardChain& all,
                      Findings& out) {
  const std::string ports = live_host_ports(node, one.list->name);
  if (ports.empty() || !all.of_iptables) return;
  const ForwardChain chain = without_plugin(all);
  for (const Traffic& traffic : traffic_of(node, one, chain, /*from=*/false)) {
    const Fate fate = fate_in(chain, traffic);
    const bool by_rule = fate.kind == Fate::Kind::kDropped;
    const bool by_policy = fate.kind == Fate::Kind::kPolicy && chain.drops;
    if (fate.is_unclear || !(by_rule || by_policy)) continue;
    const std::string match = !one.bridge.empty()   ? cat(" -o ", one.bridge)
                              : traffic.destination ? cat(" -d ", traffic.destination->str())
                                                    : "";
    out.push_back({Level::kError,
                   cat("chain '", chain.name, "' drops new connections to ", ports, " of network '",
                       one.list->name, "'"),
                   "the plugin firewall accepts what pods send, and replies",
                   cat(by_rule ? fate.rule->insertion : chain.addition, match,
                       " -m conntrack --ctstate DNAT -j ACCEPT"),
                   {one.list->name}});
    return;
  }
}

bool is_masqueraded_by_nftables(const BridgeNetwork& one) {
  return one.masquerades && one.masquerade_backend != "iptables";
}

}  // namespace

Findings check_forward_policy(const Node& node) {
  Findings out;
  for (const ForwardChain& chain : node.firewall.forward) {
    if (!concerns(node, chain) || is_of_firewalld(chain)) continue;
    for (const BridgeNetwork& one : routed_networks(node)) {
      if (is_opened_by_plugin(one, chain)) {
        add_closed_ports(node, one, chain, out);
        continue;
      }
      const Fate fate = fate_of(node, one, chain);
      const std::string why = cat("packets that pods of network '", one.list->name,
                                  "' send to other hosts are dropped, and those to hostPorts");
      const std::string pods =
          one.bridge.empty() ? cat("pods of '", one.list->name, "'") : cat("'", one.bridge, "'");
      const Level level = fate.is_unclear ? Level::kWarning : Level::kError;
      if (fate.kind == Fate::Kind::kDropped && !chain.of_plugin) {
        out.push_back({level,
                       cat("a rule of chain '", chain.name, "' drops packets from or to ", pods),
                       why,
                       accept_command(node, chain, one, fate.rule->insertion),
                       {one.list->name}});
      }
      if (fate.kind != Fate::Kind::kPolicy || !chain.drops) continue;
      out.push_back({level,
                     cat("chain '", chain.name, "' drops packets by default, and ",
                         fate.is_unclear ? "no rule clearly accepts " : "no rule accepts ",
                         "traffic from and to ", pods),
                     why,
                     forward_remedy(node, one, chain),
                     {one.list->name}});
    }
  }
  return out;
}

bool has_firewalld(const Node& node) { return node.firewall.has_table("firewalld"); }

// firewalld refuses what is forwarded between links of no zone of its own.
Findings check_firewalld(const Node& node) {
  Findings out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    bool known = false;
    for (const ForwardChain& chain : node.firewall.forward) {
      for (const Traffic& traffic : traffic_of(node, one, chain, /*from=*/true)) {
        known |= is_of_firewalld(chain) && fate_in(chain, traffic).kind == Fate::Kind::kAccepted;
      }
    }
    const bool is_left_out = one.firewall == "nftables" || one.firewall == "iptables";
    if (known || (one.firewall && !is_left_out)) continue;
    out.push_back({Level::kWarning,
                   cat("firewalld is active, and no rule clearly accepts forwarded traffic of '",
                       one.bridge, "'"),
                   cat("packets of pods of network '", one.list->name, "' may be rejected"),
                   is_left_out ? backend_remedy(one, "firewalld")
                               : cat("firewall-cmd --zone=trusted --change-interface=", one.bridge),
                   {one.list->name}});
  }
  return out;
}

Findings check_backends(const Node& node) {
  const bool of_nft =
      std::any_of(node.firewall.chains.begin(), node.firewall.chains.end(), [](const auto& chain) {
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
  return std::any_of(all.begin(), all.end(), is_masqueraded_by_nftables);
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
    const auto portmap = plugin_of(list, "portmap");
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

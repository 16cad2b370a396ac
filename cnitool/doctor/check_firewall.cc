#include <algorithm>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"

namespace tool::doctor {

namespace {

using netlink::Family;

// Rules like those of ufw's and docker's chains are not followed: what they jump to may accept.
bool may_accept(const ForwardChain& chain, const std::string& bridge, bool incoming) {
  return std::any_of(chain.rules.begin(), chain.rules.end(), [&](const ForwardRule& rule) {
    const std::string& its = incoming ? rule.in : rule.out;
    const std::string& other = incoming ? rule.out : rule.in;
    if (!other.empty()) return false;
    if (!its.empty() && its != bridge) return false;
    return rule.accepts && !rule.is_narrow;
  });
}

// What comes in reply is often accepted by its state, which is one narrow rule for all.
bool accepts_some(const ForwardChain& chain) {
  return std::any_of(chain.rules.begin(), chain.rules.end(),
                     [](const ForwardRule& rule) { return rule.accepts || !rule.goes_to.empty(); });
}

// At the end of the chain, where the policy is: what rules before it drop, such as those that
// isolate networks from each other, stays dropped.
std::string accept_command(const Node& node, const ForwardChain& chain, const std::string& bridge) {
  if (node.firewall.has_chain("ufw-user-forward")) {
    return cat("ufw route allow in on ", bridge, " && ufw route allow out on ", bridge);
  }
  if (chain.of_iptables) {
    const std::string tool =
        cat(chain.v4 ? "iptables" : "ip6tables", chain.legacy ? "-legacy" : "");
    return cat(tool, " -A FORWARD -i ", bridge, " -j ACCEPT && ", tool, " -A FORWARD -o ", bridge,
               " -j ACCEPT");
  }
  return cat("nft add rule ", chain.name, " iifname ", bridge, " accept && nft add rule ",
             chain.name, " oifname ", bridge, " accept");
}

bool concerns(const Node& node, const ForwardChain& chain) {
  return (chain.v4 && uses(node, Family::kIpv4)) || (chain.v6 && uses(node, Family::kIpv6));
}

bool is_for(const Node& node, const NatExemption& rule, const std::string& network) {
  const auto all = subnets(node);
  return std::any_of(all.begin(), all.end(), [&](const Subnet& one) {
    return one.network == network && one.range.start.family() == rule.source.ip.family() &&
           overlap(one.range.subnet, rule.source);
  });
}

// A chain of the plugin firewall: it accepts its own pods, and a rule of anybody else there can
// connect networks that it isolates.
bool is_of_plugin(const ForwardChain& chain) {
  return chain.name.find(" patchbay_") != std::string::npos;
}

// Whether the plugin firewall accepts the network's pods in that chain. Its rules in nftables are
// in a table of their own, and an accept there ends no more than its own chain.
bool is_opened_by_plugin(const BridgeNetwork& one, const ForwardChain& chain) {
  if (!one.firewall) return false;
  if (is_of_plugin(chain)) return *one.firewall == "nftables" || one.firewall->empty();
  if (*one.firewall == "nftables") return false;
  const bool of_firewalld = chain.name.find("firewalld") != std::string::npos;
  if (*one.firewall == "firewalld") return of_firewalld;
  return of_firewalld ? one.firewall->empty() : chain.of_iptables;
}

std::string backend_remedy(const BridgeNetwork& one, const char* backend) {
  return cat("in ", one.list->file, " set \"backend\": \"", backend,
             "\" in the plugin \"firewall\"");
}

std::string forward_remedy(const Node& node, const BridgeNetwork& one, const ForwardChain& chain) {
  if (is_of_plugin(chain)) {
    return one.firewall ? backend_remedy(one, "nftables")
                        : cat("in ", one.list->file, " add the plugin \"firewall\"");
  }
  return one.firewall && chain.of_iptables ? backend_remedy(one, "iptables")
                                           : accept_command(node, chain, one.bridge);
}

}  // namespace

Findings check_forward_policy(const Node& node) {
  Findings out;
  for (const ForwardChain& chain : node.firewall.forward) {
    if (!chain.drops || !concerns(node, chain)) continue;
    for (const BridgeNetwork& one : bridge_networks(node)) {
      if (is_opened_by_plugin(one, chain)) continue;
      if (may_accept(chain, one.bridge, true) && may_accept(chain, one.bridge, false)) continue;
      const bool unclear = accepts_some(chain);
      out.push_back({unclear ? Level::kWarning : Level::kError,
                     cat("chain '", chain.name, "' drops packets by default, and ",
                         unclear ? "no rule clearly accepts " : "no rule accepts ",
                         "traffic from and to '", one.bridge, "'"),
                     cat("packets that pods of network '", one.list->name,
                         "' send to other hosts are dropped, and those to hostPorts"),
                     forward_remedy(node, one, chain)});
    }
  }
  return out;
}

// firewalld refuses what is forwarded between links of no zone of its own.
Findings check_firewalld(const Node& node) {
  Findings out;
  if (!node.firewall.has_table("firewalld")) return out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    const bool known = std::any_of(node.firewall.forward.begin(), node.firewall.forward.end(),
                                   [&](const auto& chain) {
                                     return chain.name.find("firewalld") != std::string::npos &&
                                            may_accept(chain, one.bridge, true);
                                   });
    const bool is_left_out = one.firewall == "nftables" || one.firewall == "iptables";
    if (known || (one.firewall && !is_left_out)) continue;
    out.push_back({Level::kWarning,
                   cat("firewalld is active, and no rule clearly accepts forwarded traffic of '",
                       one.bridge, "'"),
                   cat("packets of pods of network '", one.list->name, "' may be rejected"),
                   is_left_out
                       ? backend_remedy(one, "firewalld")
                       : cat("firewall-cmd --zone=trusted --change-interface=", one.bridge)});
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

// With nftables ACCEPT ends no more than the chain that it is in (nft(8), "verdict statement"), and
// pods are masqueraded in another one; with iptables it is before their rules.
Findings check_exemptions(const Node& node) {
  Findings out;
  if (!node.firewall.has_table("patchbay_masquerade") &&
      !node.firewall.has_table("cni_plugins_masquerade")) {
    return out;
  }
  for (const BridgeNetwork& one : bridge_networks(node)) {
    if (!one.masquerades || one.masquerade_backend == "iptables") continue;
    for (const NatExemption& rule : node.firewall.exemptions) {
      if (!is_for(node, rule, one.list->name)) continue;
      out.push_back(
          {Level::kWarning,
           cat("chain '", rule.chain, "' accepts packets from ", rule.source.str(),
               " without NAT, but network '", one.list->name, "' masquerades by nftables"),
           "the pods are masqueraded anyway; with ipMasqBackend iptables new pods are not",
           cat("in ", one.list->file,
               " set \"ipMasqBackend\": \"iptables\" in the plugin \"bridge\"")});
    }
  }
  return out;
}

// Proxies that use IPVS give the addresses of Services to a link of the node. kube-proxy exempts
// them in iptables' table nat alone; kube-router does not.
Findings check_services(const Node& node) {
  if (node.firewall.any_address_ports.empty()) return {};
  std::string ports;
  for (const std::string& one : node.firewall.any_address_ports) {
    ports += cat(ports.empty() ? "" : ", ", one);
  }
  const std::string what = cat("Services on these ports lead to pods: ", ports);
  const auto why = [](const char* link) {
    return cat("the addresses of Services belong to '", link,
               "', and portmap's backend nftables redirects every local address");
  };
  Findings out;
  if (node.link("kube-ipvs0") != nullptr) {
    out.push_back({Level::kWarning, what, why("kube-ipvs0"),
                   "remove \"backend\": \"nftables\" from the plugin \"portmap\", then restart the "
                   "pods; without that key: cnitool repair"});
  }
  if (node.link("kube-dummy-if") != nullptr) {
    out.push_back({Level::kWarning, what, why("kube-dummy-if"),
                   "in the plugin \"portmap\" set \"conditionsV4\": [\"ip\", \"daddr\", \"!=\", "
                   "\"SERVICE_CIDR\"], then restart the pods"});
  }
  return out;
}

}  // namespace tool::doctor

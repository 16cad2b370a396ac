#include <algorithm>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"
#include "cnitool/json_at.h"
#include "cnitool/output.h"

namespace tool::doctor {

namespace {

bool is_for(const Node& node, const NatExemption& rule, const std::string& network) {
  const auto all = subnets(node);
  return std::any_of(all.begin(), all.end(), [&](const Subnet& one) {
    return one.network == network && AddressSpan::of(one.range.subnet).overlaps(rule.source);
  });
}

bool is_masqueraded_by_nftables(const BridgeNetwork& one) {
  return one.masquerades && one.masquerade_backend != "iptables";
}

}  // namespace

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

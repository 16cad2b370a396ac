#include "cnitool/doctor/kubernetes/checks.h"
#include "cnitool/json_at.h"

// The proxy that implements Services, and what portmap expects of it.
namespace tool::doctor::kubernetes {

namespace {

// By what it has in the kernel; empty: none runs, or it is of another kind.
std::string proxy_mode(const Node& node) {
  const Firewall& firewall = node.firewall;
  if (node.link("kube-ipvs0") != nullptr) return "ipvs";
  if (firewall.has_chain("KUBE-SERVICES")) return "iptables";
  return firewall.has_table("kube-proxy") ? "nftables" : "";
}

}  // namespace

// With `externalSetMarkChain` portmap jumps to a chain of kube-proxy, which only its modes iptables
// and ipvs make.
Findings check_service_marks(const Node& node) {
  Findings out;
  const std::string mode = proxy_mode(node);
  for (const cni::NetworkList& list : node.networks.lists) {
    const nlohmann::json* const portmap = plugin_with(cni::Fact::kPorts, list);
    const std::string chain = portmap == nullptr ? "" : text_at(*portmap, "externalSetMarkChain");
    if (chain.empty() || node.firewall.has_chain(chain) || node.firewall.has_legacy_rules) continue;
    out.push_back(
        {Level::kError,
         cat("portmap of network '", list.name, "' jumps to chain '", chain, "', ",
             mode == "nftables" ? "which kube-proxy in mode nftables does not have"
                                : "which does not exist"),
         "ADD of a pod with a hostPort fails",
         cat("in ", list.file, " remove \"externalSetMarkChain\" from the plugin \"portmap\""),
         {list.name}});
  }
  return out;
}

}  // namespace tool::doctor::kubernetes

#include <algorithm>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/forward_remedies.h"
#include "cnitool/doctor/pods.h"
#include "plugins/names/chains.h"

// Packet filters that packets of pods pass.
namespace tool::doctor {

namespace {

using netlink::Family;

/// The packets that a network lives by.
enum class Way {
  kOut,        ///< what pods send to other hosts
  kReplies,    ///< and what comes back
  kHostPorts,  ///< new connections from other hosts to hostPorts
  kIn          ///< and to pods themselves
};

// Rules that name uplinks cannot be judged where nobody knows these.
Traffic traffic_by(const Node& node, const BridgeNetwork& network, Way way, Family family) {
  Traffic out{.family = family, .is_from_pods = way == Way::kOut};
  (out.is_from_pods ? out.in : out.out).push_back(link_of(network));
  if (way != Way::kIn) (out.is_from_pods ? out.out : out.in) = uplinks(node, family);
  out.is_reply = way == Way::kReplies;
  out.is_dnat = way == Way::kHostPorts;
  return out;
}

// The traffic of the families that the chain sees.
std::vector<Traffic> traffic_of(const Node& node, const BridgeNetwork& network,
                                const ForwardChain& chain, Way way) {
  std::vector<Traffic> out;
  const auto add = [&](Family family, std::optional<netlink::Cidr> range) {
    if (!(family == Family::kIpv4 ? chain.v4 : chain.v6)) return;
    Traffic& one = out.emplace_back(traffic_by(node, network, way, family));
    (one.is_from_pods ? one.source : one.destination) = range;
  };
  for (const Subnet& one : subnets(node)) {
    if (one.network == network.list->name) add(one.range.start.family(), one.range.subnet);
  }
  for (const Family family : netlink::kFamilies) {
    if (out.empty() && uses(node, family, network.list->name)) add(family, {});
  }
  return out;
}

// Before the routing nobody knows where a packet goes, and replies have the node's address.
std::vector<Way> ways_through(const ForwardChain& chain) {
  if (chain.hook == Hook::kPrerouting) return {Way::kOut};
  return {Way::kOut, Way::kReplies};
}

bool drops(const ForwardChain& chain, const Fate& fate) {
  return fate.kind == Fate::Kind::kDropped || (fate.kind == Fate::Kind::kPolicy && chain.drops);
}

// The fate of the traffic that fares worst.
Fate fate_of(const Node& node, const BridgeNetwork& network, const ForwardChain& chain,
             const std::vector<Way>& ways) {
  const auto rank = [&chain](const Fate& one) {
    return !drops(chain, one) ? 0 : one.is_unclear ? 1 : 2;
  };
  Fate out{.kind = Fate::Kind::kAccepted};
  for (const Way way : ways) {
    for (const Traffic& one : traffic_of(node, network, chain, way)) {
      const Fate fate = fate_in(chain, one);
      if (rank(fate) > rank(out)) out = fate;
    }
  }
  return out;
}

bool concerns(const Node& node, const ForwardChain& chain) {
  return (chain.v4 && uses(node, Family::kIpv4)) || (chain.v6 && uses(node, Family::kIpv6));
}

// iptables-nft and iptables-legacy have such a chain each, and the plugin has its rules in one.
bool is_of_other_iptables(const Node& node, const ForwardChain& chain) {
  const auto has_rules = [](const ForwardChain& one) {
    return one.of_iptables && one.others.contains(names::kForwardChain);
  };
  return !has_rules(chain) &&
         std::ranges::any_of(node.firewall.forward, [&](const ForwardChain& one) {
           return one.v4 == chain.v4 && has_rules(one);
         });
}

// Whether the plugin firewall accepts the network's pods in that chain. Its rules in nftables are
// in a table of their own, and an accept there ends no more than its own chain.
bool is_opened_by_plugin(const Node& node, const BridgeNetwork& one, const ForwardChain& chain) {
  if (!one.firewall || (chain.of_iptables && is_of_other_iptables(node, chain))) return false;
  if (chain.of_plugin) return *one.firewall == "nftables" || one.firewall->empty();
  if (*one.firewall == "nftables") return false;
  if (*one.firewall == "firewalld") return is_of_firewalld(chain);
  return is_of_firewalld(chain) ? one.firewall->empty() : chain.of_iptables;
}

// The chain of iptables as it is with the plugin's rules for all pods of the network: it accepts
// what they send, and replies. Where they are missing, its CHECK says so.
ForwardChain with_plugin(ForwardChain chain, const BridgeNetwork& network) {
  using Effect = ForwardRule::Effect;
  ForwardRules& rules = chain.others[names::kForwardChain];
  std::erase_if(rules, [](const ForwardRule& rule) { return rule.jump.empty(); });
  rules.push_back({.in = {link_of(network)}, .effect = Effect::kAccept});
  rules.push_back({.out = {link_of(network)}, .takes_new = false, .effect = Effect::kAccept});
  const bool has_jump = std::ranges::any_of(
      chain.rules, [](const ForwardRule& rule) { return rule.jump == names::kForwardChain; });
  if (!has_jump) chain.rules.insert(chain.rules.begin(), {.jump = names::kForwardChain});
  return chain;
}

std::string backend_remedy(const BridgeNetwork& one, const char* backend) {
  return cat("in ", one.list->file, " set \"backend\": \"", backend,
             "\" in the plugin \"firewall\"");
}

// A rule in a chain of the plugin firewall could connect networks that are isolated.
std::string remedy_for(const Node& node, const BridgeNetwork& one, const Closed& closed,
                       bool has_plugin) {
  if (!closed.chain.of_plugin) return opening(node, one, closed, has_plugin);
  if (!one.firewall) return cat("in ", one.list->file, " add the plugin \"firewall\"");
  return backend_remedy(one, "nftables");
}

std::string pods_text(const BridgeNetwork& one) {
  return one.bridge.empty() ? cat("pods of '", one.list->name, "'") : cat("'", link_of(one), "'");
}

// An error where no pod of the network gets through, whatever else is accepted; a warning where
// some may.
void add_closed(const Node& node, const BridgeNetwork& one, const ForwardChain& chain,
                const Fate& fate, Findings& out) {
  const bool has_plugin = is_opened_by_plugin(node, one, chain);
  const std::string pods = pods_text(one);
  std::string what;
  if (fate.rule != nullptr) {
    what = cat("a rule of chain '", chain.name, "' ", fate.rule->rejects ? "rejects" : "drops",
               " packets from or to ", pods);
  } else {
    what = cat("chain '", chain.name, "' drops packets by default, and ",
               fate.is_unclear ? "no rule clearly accepts " : "no rule accepts ",
               "traffic from and to ", pods);
  }
  out.push_back({fate.is_unclear ? Level::kWarning : Level::kError,
                 what,
                 cat("packets that pods of network '", one.list->name,
                     "' send to other hosts are dropped, and those to hostPorts"),
                 remedy_for(node, one, {chain, fate.rule}, has_plugin),
                 {one.list->name}});
}

// New connections to hostPorts are neither what pods send nor replies.
bool add_closed_ports(const Node& node, const BridgeNetwork& one, const ForwardChain& chain,
                      Findings& out) {
  const std::string ports = live_host_ports(node, one.list->name);
  if (ports.empty()) return false;
  for (const Traffic& traffic : traffic_of(node, one, chain, Way::kHostPorts)) {
    const Fate fate = fate_in(chain, traffic);
    if (!drops(chain, fate) || fate.is_unclear) continue;
    out.push_back({Level::kError,
                   cat("chain '", chain.name, "' drops new connections to ", ports, " of network '",
                       one.list->name, "'"),
                   "its rules accept what pods send, and replies",
                   port_opening(one, {chain, fate.rule}, traffic.destination),
                   {one.list->name}});
    return true;
  }
  return false;
}

void check_chain(const Node& node, const BridgeNetwork& one, const ForwardChain& chain,
                 Findings& out) {
  const Fate fate = fate_of(node, one, chain, ways_through(chain));
  if (drops(chain, fate)) return add_closed(node, one, chain, fate, out);
  if (chain.hook != Hook::kForward || add_closed_ports(node, one, chain, out)) return;
  // Other hosts may be meant to reach pods that have no other address there.
  if (one.masquerades || is_opened_by_plugin(node, one, chain)) return;
  Fate into = fate_of(node, one, chain, {Way::kIn});
  if (into.kind != Fate::Kind::kPolicy || !chain.drops) return;
  into.is_unclear = true;
  add_closed(node, one, chain, into, out);
}

// In a table of its own the plugin has rules of each pod, which its CHECK compares.
Findings closed_chains(const Node& node, bool of_firewalld) {
  Findings out;
  for (const ForwardChain& chain : node.firewall.forward) {
    if (!concerns(node, chain) || is_of_firewalld(chain) != of_firewalld) continue;
    for (const BridgeNetwork& one : routed_networks(node)) {
      const bool is_opened = is_opened_by_plugin(node, one, chain);
      if (!is_opened) check_chain(node, one, chain, out);
      if (is_opened && chain.of_iptables) check_chain(node, one, with_plugin(chain, one), out);
    }
  }
  return out;
}

}  // namespace

Findings check_forward_policy(const Node& node) { return closed_chains(node, false); }

bool has_firewalld(const Node& node) { return node.firewall.has_table("firewalld"); }

Findings check_firewalld(const Node& node) { return closed_chains(node, true); }

}  // namespace tool::doctor

#include "cnitool/doctor/forward_remedies.h"

#include <algorithm>
#include <set>

#include "cnitool/output.h"
#include "plugins/names/chains.h"

namespace tool::doctor {

namespace {

using netlink::Family;

bool is_seen_by(const ForwardChain& chain, Family family) {
  return family == Family::kIpv4 ? chain.v4 : chain.v6;
}

// The network's subnets as far as the chain sees them.
std::vector<netlink::Cidr> ranges_of(const Node& node, const BridgeNetwork& network,
                                     const ForwardChain& chain) {
  std::vector<netlink::Cidr> out;
  for (const Subnet& one : subnets(node)) {
    if (one.network == network.list->name && is_seen_by(chain, one.range.start.family())) {
      out.push_back(one.range.subnet);
    }
  }
  return out;
}

// "-i cni0" and "-o cni0", or by the subnets of ptp.
std::vector<std::string> matches_of(const Node& node, const BridgeNetwork& one,
                                    const ForwardChain& chain) {
  if (!one.bridge.empty()) {
    const std::string link = link_of(one);
    if (chain.of_iptables) return {cat("-i ", link), cat("-o ", link)};
    if (chain.hook == Hook::kPrerouting) return {cat("iifname ", link)};
    return {cat("iifname ", link), cat("oifname ", link)};
  }
  std::vector<std::string> out;
  for (const netlink::Cidr& range : ranges_of(node, one, chain)) {
    const char* const ip = range.ip.is_v4() ? "ip" : "ip6";
    out.push_back(chain.of_iptables ? cat("-s ", range.str()) : cat(ip, " saddr ", range.str()));
    out.push_back(chain.of_iptables ? cat("-d ", range.str()) : cat(ip, " daddr ", range.str()));
  }
  return out;
}

// Whether a packet gets from the rules to a chain.
bool leads_to(const ForwardChain& chain, const ForwardRule& rule, const std::string& wanted,
              std::set<std::string>& seen) {
  if (rule.jump == wanted) return true;
  const auto target = chain.others.find(rule.jump);
  if (target == chain.others.end() || !seen.insert(rule.jump).second) return false;
  return std::ranges::any_of(
      target->second, [&](const ForwardRule& one) { return leads_to(chain, one, wanted, seen); });
}

bool is_below(const Closed& closed, const std::string& parent) {
  std::set<std::string> seen;
  return closed.rule->chain == parent ||
         leads_to(closed.chain, {.jump = parent}, closed.rule->chain, seen);
}

// Whether what is inserted before the rule precedes the plugin firewall's isolation of networks.
bool precedes_isolation(const Closed& closed) {
  for (const ForwardRule& one : closed.chain.rules) {
    if (one.jump == names::kIsolationStage1Chain) return false;
    std::set<std::string> seen;
    const bool is_there =
        &one == closed.rule || leads_to(closed.chain, one, closed.rule->chain, seen);
    if (is_there) {
      return std::ranges::any_of(closed.chain.rules, [](const ForwardRule& rule) {
        return rule.jump == names::kIsolationStage1Chain;
      });
    }
  }
  return false;
}

/// Commands that each put a rule before the one that drops, in their order, or at the chain's end.
class Commands {
 public:
  explicit Commands(const Closed& closed) : closed_(closed) {
    if (closed.rule != nullptr && precedes_isolation(closed)) {
      add(cat("-j ", names::kIsolationStage1Chain));
    }
  }
  void add(const std::string& rule) {
    all_.push_back(cat(
        closed_.rule != nullptr ? closed_.rule->insertion_of(all_.size()) : closed_.chain.addition,
        " ", rule));
  }
  void accept(const std::string& match) {
    add(cat(match, closed_.chain.of_iptables ? " -j ACCEPT" : " accept"));
  }
  std::string text() const { return joined(all_, " && "); }

 private:
  const Closed& closed_;
  std::vector<std::string> all_ = {};
};

// Its own rules would be gone after its next reload.
std::string firewalld_opening(const Node& node, const BridgeNetwork& one,
                              const ForwardChain& chain) {
  std::vector<std::string> out;
  const auto add = [&out](const std::string& change) {
    for (const char* const when : {"", "--permanent "}) {
      out.push_back(cat("firewall-cmd ", when, "--zone=trusted ", change));
    }
  };
  if (!one.bridge.empty()) add(cat("--change-interface=", link_of(one)));
  if (one.bridge.empty()) {
    for (const auto& range : ranges_of(node, one, chain)) add(cat("--add-source=", range.str()));
  }
  return joined(out, " && ");
}

}  // namespace

bool is_of_firewalld(const ForwardChain& chain) {
  return chain.name.find("firewalld") != std::string::npos;
}

std::string link_of(const BridgeNetwork& network) {
  if (network.bridge.empty()) return "veth*";
  return network.vlan == 0 ? network.bridge : cat(network.bridge, ".", network.vlan);
}

std::string opening(const Node& node, const BridgeNetwork& network, const Closed& closed,
                    bool has_plugin) {
  const ForwardChain& chain = closed.chain;
  if (is_of_firewalld(chain) && node.runs_firewalld) return firewalld_opening(node, network, chain);
  if (node.has_ufw && closed.rule == nullptr && chain.of_iptables && !network.bridge.empty() &&
      node.firewall.has_chain("ufw-user-forward")) {
    const std::string link = link_of(network);
    return cat("ufw route allow in on ", link, " && ufw route allow out on ", link);
  }
  Commands out(closed);
  const bool is_before_plugin =
      has_plugin && closed.rule != nullptr && !is_below(closed, names::kForwardChain);
  if (is_before_plugin) {
    out.add(cat("-j ", names::kForwardChain));
  } else {
    for (const std::string& match : matches_of(node, network, chain)) out.accept(match);
  }
  return out.text();
}

std::string port_opening(const BridgeNetwork& network, const Closed& closed,
                         const std::optional<netlink::Cidr>& range) {
  Commands out(closed);
  const bool of_iptables = closed.chain.of_iptables;
  std::string match;
  if (!network.bridge.empty()) {
    match = cat(of_iptables ? "-o " : "oifname ", link_of(network), " ");
  } else if (range) {
    match = cat(of_iptables         ? "-d "
                : range->ip.is_v4() ? "ip daddr "
                                    : "ip6 daddr ",
                range->str(), " ");
  }
  out.accept(cat(match, of_iptables ? "-m conntrack --ctstate DNAT" : "ct status dnat"));
  return out.text();
}

}  // namespace tool::doctor

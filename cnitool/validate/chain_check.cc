#include "cnitool/validate/chain_check.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cnitool/clashes.h"
#include "cnitool/known_plugins.h"
#include "cnitool/validate/addresses_check.h"
#include "cnitool/validate/addressing.h"
#include "cnitool/validate/plugin_check.h"

namespace tool {

namespace {

using cni::Fact;
using nlohmann::json;

void refuse(const PluginText& plugin, const std::string& what, Diagnostics& diagnostics) {
  diagnostics.add(*plugin.document, plugin.at("type"), {.what = what});
}

// A chained plugin gets the result of those before it alone.
void check_before(const NetworkText& network, Diagnostics& diagnostics) {
  const auto is_maker = [](const PluginText& plugin) { return plugin.facts.has(Fact::kInterface); };
  const auto maker = std::ranges::find_if(network.plugins, is_maker);
  if (maker == network.plugins.end()) return;
  for (auto plugin = network.plugins.begin(); plugin != maker; ++plugin) {
    if (!plugin->facts.has(Fact::kChained)) continue;
    refuse(*plugin,
           cat(plugin->type, " comes before ", maker->at("type"),
               ", which creates the interface: ADD finds no interface"),
           diagnostics);
  }
}

// A plugin of another project may attach to a bridge by keys of its own.
bool is_never_forwarded(const PluginText& maker) {
  const bool is_known =
      maker.facts.has(Fact::kMaster) || facts_of(maker.type).has(Fact::kInterface);
  return is_known && !maker.facts.has_one_of({Fact::kBridge, Fact::kRouted, Fact::kDelegates});
}

// Policies are about traffic that the node forwards.
void check_policy(const NetworkText& network, Diagnostics& diagnostics) {
  const PluginText* maker = nullptr;
  for (const PluginText& plugin : network.plugins) {
    if (plugin.facts.has(Fact::kInterface)) maker = &plugin;
    if (!plugin.facts.has(Fact::kPolicy) || maker == nullptr) continue;
    if (!is_never_forwarded(*maker)) continue;
    const std::string policy = text_at(plugin.conf(), "ingressPolicy");
    if (policy.empty() || policy == "open") continue;
    warn(plugin, "ingressPolicy",
         cat("has no bridge after ", maker->type,
             ": ADD fails, because the node does not forward the pods' traffic"),
         diagnostics);
  }
}

void check_order(const NetworkText& network, Plugins& plugins, Diagnostics& diagnostics) {
  const PluginText* maker = nullptr;
  const PluginText* gateway = nullptr;
  for (const PluginText& plugin : network.plugins) {
    const bool first = &plugin == &network.plugins[0];
    const bool asked = !plugin.type.empty() && !plugins.of(plugin.type).schema->is_null();
    if (first && plugin.facts.has(Fact::kChained) && !asked) {
      refuse(plugin,
             cat(plugin.type,
                 " is chained after a plugin that creates the interface: it cannot be the first"),
             diagnostics);
    }
    if (plugin.facts.has(Fact::kInterface)) {
      if (maker != nullptr) {
        refuse(plugin,
               cat("a second plugin that creates the container interface, after ",
                   maker->at("type"), ": ADD fails, because the interface exists"),
               diagnostics);
      } else {
        maker = &plugin;
      }
    }
    if (!is_true(plugin.conf(), "isDefaultGateway")) continue;
    if (gateway != nullptr) {
      warn(plugin, "isDefaultGateway",
           cat("a second default gateway, after ", gateway->at("isDefaultGateway")), diagnostics);
    }
    gateway = &plugin;
  }
}

// The first plugin with the fact that comes before; null where there is none.
const PluginText* before(const NetworkText& network, const PluginText& plugin, Fact fact) {
  for (const PluginText& one : network.plugins) {
    if (&one == &plugin) break;
    if (one.facts.has(fact)) return &one;
  }
  return nullptr;
}

// Pairs of chained plugins that cannot work, or of which one does nothing.
void check_pairs(const NetworkText& network, const PluginText& plugin, Diagnostics& diagnostics) {
  if (plugin.facts.has(Fact::kVrf)) {
    if (const auto* const first = before(network, plugin, Fact::kVrf)) {
      refuse(plugin,
             cat("a second VRF for the interface, after ", first->at("type"),
                 ": ADD fails, because an interface is in one VRF"),
             diagnostics);
    }
  }
  for (const auto& [fact, other] :
       {std::pair(Fact::kVrf, Fact::kSourceRoutes), {Fact::kSourceRoutes, Fact::kVrf}}) {
    const auto* const first = plugin.facts.has(fact) ? before(network, plugin, other) : nullptr;
    if (first == nullptr) continue;
    warn(plugin, "type",
         cat("sbr has no effect on an interface in a VRF, whose routing table decides; see ",
             first->at("type")),
         diagnostics);
  }
}

bool has_runtime(const PluginText& plugin, const char* capability) {
  const json* const runtime = member(plugin.conf(), "runtimeConfig");
  return runtime != nullptr && member(*runtime, capability) != nullptr;
}

void check_capabilities(const PluginText& plugin, Diagnostics& diagnostics) {
  const auto lacks = [&plugin](const char* capability) {
    return !plugin.declares(capability) && !has_runtime(plugin, capability);
  };
  if (plugin.facts.has(Fact::kPorts) && lacks("portMappings")) {
    warn(plugin, "type",
         R"(the runtime hands over no ports without "capabilities": {"portMappings": true})",
         diagnostics);
  }
  if (!plugin.facts.has(Fact::kRates) || !lacks("bandwidth")) return;
  for (const char* const key : {"ingressRate", "ingressBurst", "egressRate", "egressBurst"}) {
    if (member(plugin.conf(), key) != nullptr) return;
  }
  warn(plugin, "type",
       R"(no limits: neither rates nor "capabilities": {"bandwidth": true} are given)",
       diagnostics);
}

// A MAC address that is set later is not the one that macspoofchk accepts.
void check_mac(const NetworkText& network, const PluginText& plugin, Diagnostics& diagnostics) {
  const bool changes_mac = plugin.declares("mac") || !text_at(plugin.conf(), "mac").empty();
  if (!plugin.facts.has(Fact::kSettings) || !changes_mac) return;
  for (const PluginText& one : network.plugins) {
    if (&one == &plugin) break;
    if (!one.ipam_facts.has(Fact::kServer)) continue;
    warn(plugin, "type",
         cat("changes the MAC address for which ", one.at("ipam"),
             " has got a lease: a DHCP server that knows clients by their MAC address does not "
             "renew it"),
         diagnostics);
  }
  const auto* const bridge = before(network, plugin, Fact::kBridge);
  if (bridge == nullptr || !is_true(bridge->conf(), "macspoofchk")) return;
  warn(plugin, "type",
       cat("with ", bridge->at("macspoofchk"),
           " the frames of a pod whose MAC address tuning changes are dropped: let bridge set it, "
           "by \"capabilities\": {\"mac\": true}"),
       diagnostics);
}

// "all", or an interface.
bool disables_ipv6(const PluginText& plugin) {
  const json* const sysctl = member(plugin.conf(), "sysctl");
  if (sysctl == nullptr || !sysctl->is_object()) return false;
  return std::ranges::any_of(sysctl->items(), [](const auto& one) {
    const std::string& key = one.key();
    return key.starts_with("net") && key.ends_with("disable_ipv6") && one.value() == "1" &&
           key.find("default") == std::string::npos;
  });
}

// The kernel removes the addresses of an interface whose IPv6 is disabled.
void check_ipv6(const NetworkText& network, const PluginText& plugin, Diagnostics& diagnostics) {
  if (!plugin.facts.has(Fact::kSettings) || !disables_ipv6(plugin)) return;
  for (const PluginText& one : network.plugins) {
    if (&one == &plugin) return;
    for (const PodSubnet& subnet : addressing_of(one).subnets) {
      if (subnet.cidr.ip.is_v4()) continue;
      return warn(
          plugin, "sysctl",
          cat("disable_ipv6 removes the addresses of ", one.at(subnet.path), " from the interface"),
          diagnostics);
    }
  }
}

// Keys of a bridge that do nothing without addresses.
void check_layer2(const PluginText& plugin, Diagnostics& diagnostics) {
  const json* const ipam = member(plugin.conf(), "ipam");
  if (!plugin.facts.has(Fact::kBridge) || (ipam != nullptr && !text_at(*ipam, "type").empty()))
    return;
  if (ipam != nullptr && ipam->is_object() && !ipam->empty()) {
    return warn(plugin, "ipam",
                "without \"type\" no IPAM plugin reads it: the pod gets no addresses", diagnostics);
  }
  for (const char* const key : {"isGateway", "isDefaultGateway", "ipMasq"}) {
    if (is_true(plugin.conf(), key)) {
      warn(plugin, key, "has no effect without \"ipam\": there are no addresses", diagnostics);
    }
  }
}

bool has_routes(const PluginText& plugin) {
  const json* const ipam = member(plugin.conf(), "ipam");
  const json* const routes = ipam == nullptr ? nullptr : member(*ipam, "routes");
  return routes != nullptr && !routes->empty();
}

// Masquerading is for packets that pods route by the node to other networks.
void check_masquerade(const PluginText& plugin, Diagnostics& diagnostics) {
  const bool is_bridge = plugin.facts.has(Fact::kBridge);
  const bool is_routed = is_bridge || plugin.facts.has(Fact::kRouted);
  if (!is_routed || !is_true(plugin.conf(), "ipMasq") || !addressing_of(plugin).known) return;
  if (is_bridge && is_true(plugin.conf(), "isDefaultGateway")) return;
  if (is_bridge && !is_true(plugin.conf(), "isGateway")) {
    warn(plugin, "ipMasq",
         "the node is no gateway of the pods without isGateway or isDefaultGateway: it masquerades "
         "nothing",
         diagnostics);
  } else if (!has_routes(plugin)) {
    warn(plugin, "ipMasq",
         cat("pods have no route to other networks: \"routes\": [{\"dst\": \"0.0.0.0/0\"}] in "
             "\"ipam\" gives them one",
             is_bridge ? ", and so does \"isDefaultGateway\": true" : ""),
         diagnostics);
  }
}

std::string place_of(const Document& document, const std::string& path) {
  const auto at = cni::position_in(document.text, document.json.nearest(path).value.begin);
  return cat(document.file, ":", at.line);
}

void check_names(const std::list<NetworkText>& networks, Diagnostics& diagnostics) {
  for (auto it = networks.begin(); it != networks.end(); ++it) {
    const auto same = std::find_if(networks.begin(), it, [&it](const NetworkText& other) {
      return !it->name.empty() && other.name == it->name;
    });
    if (same == it) continue;
    diagnostics.add(
        *it->document, "name",
        {Severity::kWarning, cat("duplicate network name, first in ",
                                 place_of(*same->document, "name"), ": runtimes use that one")});
  }
}

}  // namespace

void check_chain(const NetworkText& network, Plugins& plugins, Diagnostics& diagnostics) {
  check_order(network, plugins, diagnostics);
  check_before(network, diagnostics);
  check_policy(network, diagnostics);
  for (const PluginText& plugin : network.plugins) {
    check_pairs(network, plugin, diagnostics);
    check_mac(network, plugin, diagnostics);
    check_ipv6(network, plugin, diagnostics);
    if (network.has_runtime) check_capabilities(plugin, diagnostics);
    check_layer2(plugin, diagnostics);
    check_masquerade(plugin, diagnostics);
    if (passes_ipam_on(plugin, plugins)) check_addresses(plugin, diagnostics);
  }
}

void check_together(const std::list<NetworkText>& networks, Diagnostics& diagnostics) {
  check_names(networks, diagnostics);
  std::vector<NetworkAddresses> all;
  std::vector<const PluginText*> plugins;  // of the same places
  for (const NetworkText& network : networks) {
    for (const PluginText& plugin : network.plugins) {
      all.push_back({network.name, plugin.document->file, wire_of(plugin.conf(), plugin.facts),
                     given_by(plugin.conf(), network.name, plugin.ipam_facts)});
      plugins.push_back(&plugin);
    }
  }
  for (const Clash& clash : clashes(all, have_one_name)) {
    const PluginText& one = *plugins[static_cast<std::size_t>(clash.one - all.data())];
    const PluginText& other = *plugins[static_cast<std::size_t>(clash.other - all.data())];
    const bool is_of_addresses = !clash.overlaps.empty();
    const Overlap& found = is_of_addresses ? clash.overlaps.front() : *clash.subnets;
    warn(one, found.one->path,
         cat("overlaps with ", found.other->range.subnet.str(), " of network ",
             clash.other->network, " in ", place_of(*other.document, other.at(found.other->path)),
             is_of_addresses
                 ? cat(": both may allocate ", found.str(), ", because their leases are separate")
                 : ": the node has two routes to the addresses and uses one"),
         diagnostics);
  }
}

}  // namespace tool

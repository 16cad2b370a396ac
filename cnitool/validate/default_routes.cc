#include "cnitool/validate/default_routes.h"

#include <algorithm>
#include <map>

#include "cnitool/validate/addressing.h"

namespace tool {

namespace {

using netlink::Family;

// Their routes are in tables of their own.
bool has_own_tables(const NetworkText& network) {
  return std::ranges::any_of(network.plugins, [](const PluginText& plugin) {
    return plugin.facts.has_one_of({cni::Fact::kSourceRoutes, cni::Fact::kVrf});
  });
}

// isDefaultGateway makes one for each family that has none.
void add_gateways(const PluginText& plugin, Addressing& addressing) {
  if (!is_true(plugin.conf(), "isDefaultGateway")) return;
  for (const PodSubnet& one : addressing.subnets) {
    const Family family = one.cidr.ip.family();
    const bool has_one = std::ranges::any_of(
        addressing.ways_out, [family](const WayOut& way) { return way.family == family; });
    if (!has_one) addressing.ways_out.push_back({"isDefaultGateway", family});
  }
}

std::vector<WayOut> ways_out(const PluginText& plugin) {
  if (!plugin.facts.has(cni::Fact::kInterface) || is_true(plugin.conf(), "ignoreDefaultRoute"))
    return {};
  Addressing out = addressing_of(plugin);
  add_gateways(plugin, out);
  return std::move(out.ways_out);
}

}  // namespace

void check_default_routes(const std::list<NetworkText>& networks, Diagnostics& diagnostics) {
  std::map<std::pair<Family, std::int64_t>, const NetworkText*> first;
  for (const NetworkText& network : networks) {
    if (has_own_tables(network)) continue;
    for (const PluginText& plugin : network.plugins) {
      for (const WayOut& way : ways_out(plugin)) {
        const auto [it, is_new] = first.try_emplace({way.family, way.priority}, &network);
        if (is_new || it->second == &network) continue;
        diagnostics.add(
            *plugin.document, plugin.at(way.path),
            {Severity::kWarning,
             cat("a second default route for ", way.family == Family::kIpv4 ? "IPv4" : "IPv6",
                 ", after that of network ", it->second->name, " in ", it->second->document->file,
                 R"(: set "ignoreDefaultRoute": true here, or another "priority")")});
      }
    }
  }
}

}  // namespace tool

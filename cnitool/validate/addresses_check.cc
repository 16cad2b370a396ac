#include "cnitool/validate/addresses_check.h"

#include <algorithm>

#include "cnitool/validate/addressing.h"

namespace tool {

namespace {

// Then it is on the link.
bool is_alone(const PodSubnet& one) { return one.cidr.prefix == one.cidr.ip.bits(); }

void check_gateway(const PluginText& plugin, const PodSubnet& one, Diagnostics& diagnostics) {
  if (!one.gateway || is_alone(one) || one.cidr.contains(*one.gateway)) return;
  if (one.gateway->bits() == 128 && one.gateway->is_link_local()) return;  // RFC 4861, section 8
  warn(plugin, one.gateway_path,
       cat("the gateway ", one.gateway->str(), " is not in the subnet ", one.cidr.network().str()),
       diagnostics);
}

// RFC 1122, section 3.2.1.3; RFC 3021 has both addresses of a /31. RFC 4291, section 2.6.1: the
// first one is any router's.
void check_static(const PluginText& plugin, const PodSubnet& one, Diagnostics& diagnostics) {
  const auto& [ip, prefix] = one.cidr;
  if (prefix + 1 >= ip.bits()) return;
  const bool is_first = one.cidr == one.cidr.network();
  if (!is_first && !(ip.is_v4() && ip == ip.broadcast(prefix))) return;
  warn(plugin, one.path,
       cat("is the ", is_first ? "network's own" : "broadcast", " address of ",
           one.cidr.network().str(), ": no host can have it"),
       diagnostics);
}

void check_hop(const PluginText& plugin, const Hop& hop, const Addressing& addressing,
               Diagnostics& diagnostics) {
  const auto holds = [&hop](const PodSubnet& one) {
    return one.cidr.contains(hop.gateway) || one.gateway == hop.gateway ||
           one.cidr.prefix == hop.gateway.bits();
  };
  if (plugin.declares("ips") || plugin.declares("ipRanges") || hop.gateway.is_link_local() ||
      hop.gateway.is_unspecified() || std::ranges::any_of(addressing.subnets, holds)) {
    return;
  }
  warn(plugin, hop.path, cat("the next hop ", hop.gateway.str(), " is in no subnet of the pod"),
       diagnostics);
}

// Beside that of the link the kernel has no second one of the same destination and metric.
void check_own_subnet(const PluginText& plugin, const Hop& hop, const Addressing& addressing,
                      Diagnostics& diagnostics) {
  const bool is_own = std::ranges::any_of(addressing.subnets, [&hop](const PodSubnet& one) {
    return !is_alone(one) && hop.dst == one.cidr.network();
  });
  if (!is_own || hop.has_priority) return;
  warn(plugin, hop.path,
       cat("leads to ", hop.dst->str(),
           " by a gateway, but that is the pod's own subnet, which is on its link"),
       diagnostics);
}

}  // namespace

void check_addresses(const PluginText& plugin, Diagnostics& diagnostics) {
  const Addressing addressing = addressing_of(plugin);
  if (!addressing.known) return;
  if (addressing.subnets.empty()) {
    const bool promised = plugin.declares("ips") || plugin.declares("ipRanges");
    if (!promised && addressing.is_static && addressing.entries == 0) {
      warn(plugin, "ipam", "no addresses: ADD fails unless CNI_ARGS or args give some",
           diagnostics);
    }
    return;
  }
  for (const PodSubnet& one : addressing.subnets) {
    check_gateway(plugin, one, diagnostics);
    if (addressing.is_static) check_static(plugin, one, diagnostics);
  }
  for (const Hop& hop : addressing.hops) {
    check_hop(plugin, hop, addressing, diagnostics);
    check_own_subnet(plugin, hop, addressing, diagnostics);
  }
}

}  // namespace tool

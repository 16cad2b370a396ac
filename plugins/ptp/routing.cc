#include "plugins/ptp/routing.h"

#include <linux/rtnetlink.h>

#include <algorithm>

#include "libcni/common/error.h"
#include "plugins/common/link/interface.h"

namespace ptp {

namespace {

using cni::Address;
using cni::Cidr;
using cni::Ip;

// The gateway is in no subnet, so that all pods of the node have the same one.
Ip link_local_gateway(bool v4) { return Ip::parse(v4 ? "169.254.1.1" : "fe80::1").value(); }

Cidr alone(const Ip& ip) { return {ip, ip.bits()}; }

Ip gateway_for(const Cidr& address) {
  const Ip first = address.network().ip;
  const Ip second = first.next().value_or(first);
  const unsigned host_bits = address.ip.bits() - address.prefix;
  if (host_bits == 1) return address.ip == first ? second : first;  // RFC 3021, RFC 6164
  if (host_bits == 0 || address.ip == second) return link_local_gateway(address.ip.is_v4());
  return second;
}

template <class Routes>
bool leads_to(const Routes& routes, const Cidr& destination) {
  return std::ranges::any_of(routes, [&](const auto& route) { return route.dst == destination; });
}

// Whether IPAM routes the subnet in the main table, which it may also name as 0.
bool is_routed_by_ipam(const cni::Result& result, const Cidr& subnet) {
  return std::ranges::any_of(result.routes, [&](const cni::Route& route) {
    const unsigned table = route.table.value_or(RT_TABLE_MAIN);
    return route.dst.network() == subnet && (table == RT_TABLE_MAIN || table == RT_TABLE_UNSPEC);
  });
}

void refuse_own(const Ip& gateway, const cni::Result& result) {
  for (const Address& one : result.ips) {
    if (one.cidr.ip != gateway) continue;
    throw cni::Error(cni::Code::kInternal,
                     cni::cat("gateway ", gateway.str(), ": it is an address of the pod"),
                     "the IPAM plugin has to give the gateway another address");
  }
}

void add_address(const Address& address, const cni::Result& result, Routing& out) {
  const Ip& own = address.cidr.ip;
  const Ip& gateway = *address.gateway;
  refuse_own(gateway, result);
  if (!leads_to(out.pod, alone(gateway))) {
    out.gateways.push_back(alone(gateway));
    out.pod.push_back({.dst = alone(gateway), .scope = RT_SCOPE_LINK, .source = own});
  }
  const Cidr subnet = address.cidr.network();
  if (subnet != alone(own) && !leads_to(out.pod, subnet) && !is_routed_by_ipam(result, subnet)) {
    out.pod.push_back({.dst = subnet, .gateway = gateway, .source = own});
  }
  out.node.push_back({.dst = alone(own), .scope = RT_SCOPE_HOST, .exclusive = true});
}

}  // namespace

bool Routing::has(netlink::Family family) const {
  return std::ranges::any_of(gateways,
                             [family](const Cidr& one) { return one.ip.family() == family; });
}

void choose_gateways(cni::Result& result) {
  for (Address& address : result.ips) {
    if (!address.gateway) address.gateway = gateway_for(address.cidr);
  }
}

Routing routing_of(const cni::Result& result, const std::string& ifname) {
  Routing out;
  for (const Address& address : plugins::addresses_of(result, ifname)) {
    if (address.gateway) add_address(address, result, out);
  }
  return out;
}

}  // namespace ptp

#include "plugins/common/link/pod_states.h"

#include <algorithm>

#include "plugins/common/link/host_veth.h"
#include "plugins/common/link/interface.h"

namespace plugins {

namespace {

bool has_one_of(netlink::RouteSocket& pod, const netlink::Link& link,
                const std::vector<cni::Address>& addresses) {
  const auto present = pod.addresses(link);
  return std::ranges::any_of(present, [&](const netlink::LinkAddress& one) {
    return std::ranges::any_of(
        addresses, [&](const cni::Address& wanted) { return wanted.cidr.ip == one.cidr.ip; });
  });
}

}  // namespace

std::optional<netlink::Link> interface_of_prev_result(netlink::RouteSocket& pod,
                                                      const cni::Request& request) {
  const auto result = readable_prev_result(request);
  auto link = result ? pod.find(request.ifname) : std::nullopt;
  if (!link) return std::nullopt;
  const auto& all = result->interfaces;
  const bool has_mac = std::ranges::any_of(all, [&](const cni::Interface& one) {
    return one.name == request.ifname && !one.sandbox.empty() &&
           netlink::Mac::parse(one.mac) == link->mac;
  });
  if (!has_mac) return std::nullopt;
  // vlan and ipvlan have the MAC address of their master, as all others on it.
  const auto addresses = addresses_of(*result, request.ifname);
  if (!addresses.empty() && !has_one_of(pod, *link, addresses)) return std::nullopt;
  return link;
}

}  // namespace plugins

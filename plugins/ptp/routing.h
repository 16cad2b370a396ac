#pragma once

#include <string>
#include <vector>

#include "libcni/config/result.h"
#include "netlink/route/route.h"

namespace ptp {

/// Routes that make the host veth the gateway of the pod: the pod sends everything to the node,
/// also packets for its own subnet.
struct Routing {
  /// In the pod, before the routes of IPAM: to each gateway over the link, and to each subnet
  /// through its gateway.
  std::vector<netlink::LinkRoute> pod;
  std::vector<cni::Cidr> gateways;       ///< of the host veth, each once; /32 or /128
  std::vector<netlink::LinkRoute> node;  ///< to the pod's addresses, each /32 or /128

  bool has(netlink::Family family) const;
};

/// Gives a gateway to each address that the IPAM plugin gave none: the first host of the subnet,
/// the other address of a /31 or /127, and 169.254.1.1 or fe80::1 where the subnet has no other
/// address or the pod itself has the first one.
void choose_gateways(cni::Result& result);

/// The routing for those of result's addresses that belong to the interface ifname. Of two
/// addresses in one subnet the first one's gateway leads there; a route of IPAM to exactly the
/// subnet replaces that. \throws cni::Error for a gateway that is an address of the pod.
Routing routing_of(const cni::Result& result, const std::string& ifname);

}  // namespace ptp

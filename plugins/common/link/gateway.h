#pragma once

#include <vector>

#include "libcni/config/result.h"
#include "netlink/route/socket.h"

namespace plugins {

/// Lets the node forward packets of the family. Where that turns IPv6 forwarding on, links that
/// learned a default route from router advertisements are told to go on listening (accept_ra=2):
/// the kernel would stop, and the node would lose its uplink when the route expires.
/// \throws netlink::Error.
void enable_forwarding(netlink::RouteSocket& host, netlink::Family family);

/// Reads the setting by RTM_GETNETCONF: a file below /proc/sys takes longer with each namespace.
/// \throws cni::Error (kInternal) where the node does not forward packets of the family.
void check_forwarding(netlink::RouteSocket& host, netlink::Family family);

/// CHECK: \throws cni::Error (kInternal) naming the first gateway address that the device lacks.
void check_gateway_addresses(netlink::RouteSocket& host, const netlink::Link& device,
                             const std::vector<cni::Cidr>& gateways);

/// The treatment of another IPv4 address of the device, or an IPv6 address whose subnet overlaps.
enum class OtherAddresses {
  kRefuse,   ///< ADD: the bridge is another network's, and pods would route by the wrong subnet
  kReplace,  ///< forceAddress
  kKeep      ///< REPAIR: pods have the gateway already, and somebody uses the other address
};

/// Makes sure that the device has the gateway addresses, which are of one family.
/// \throws cni::Error naming the address in the way (kRefuse); netlink::Error.
void ensure_gateway_addresses(netlink::RouteSocket& host, const netlink::Link& device,
                              const std::vector<cni::Cidr>& gateways, OtherAddresses others);

}  // namespace plugins

#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/collect.h"
#include "libcni/plugin/request.h"

namespace plugins {

/// Whom ADD asks for addresses, and for what.
struct AddressSource {
  std::string ipam_type;
  bool ignore_default_route = false;  ///< as without_default_routes()
  std::size_t interface = 0;          ///< the entry of the result that the addresses belong to
};

/// ADD of an interface plugin: runs the IPAM plugin and returns its result. The release of the
/// addresses is in undo.
/// \throws cni::Error: the IPAM plugin's own, kInternal for a result without addresses.
cni::Result request_addresses(const cni::Request& request, const AddressSource& source,
                              cni::Undo& undo);

/// `ignoreDefaultRoute`: the routes but the default ones of the main table.
std::vector<cni::Route> without_default_routes(std::vector<cni::Route> routes);

/// Removes interfaces, with what else they have; true if they are gone.
using Disconnect = std::function<bool(cni::BestEffort&)>;

/// DEL: whoever gets the addresses next must not meet this pod, so that they are released after the
/// interface is gone. A lease of the IPAM plugin dhcp is released before: its DHCPRELEASE goes over
/// the interface. \throws cni::Error listing what failed.
void disconnect_and_release(const cni::Request& request, const Disconnect& disconnect);
/// GC: the same for interfaces of attachments that are not valid, with GC of the IPAM plugin.
void disconnect_and_collect(const cni::Request& request, cni::Collect& collect,
                            const Disconnect& disconnect);

/// The gateways that complete_gateways() fills in.
struct Gateways {
  bool first_host = false;  ///< `isGateway`: the first address of the subnet, where IPAM names none
  bool default_route = false;  ///< `isDefaultGateway`: a default route for a family that has none
};

/// Where a gateway is, by the addresses of the interface.
enum class Reach {
  kSubnet,  ///< in the subnet of an address, or link-local of IPv6
  kOnLink,  ///< in none, but an address has it as its gateway, or no address has a subnet
  kNowhere
};
Reach reach_of(const cni::Ip& gateway, const std::vector<cni::Address>& addresses);

/// Fills in the gateways that the IPAM plugin left open, and the default routes that follow.
void complete_gateways(const Gateways& wanted, cni::Result& result);

}  // namespace plugins

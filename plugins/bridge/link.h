#pragma once

#include "netlink/route/socket.h"
#include "plugins/bridge/conf.h"
#include "plugins/common/link/gateway.h"
#include "plugins/common/link/veth_pair.h"

namespace bridge {

/// The objects of one call.
struct Context {
  const Conf& conf;
  plugins::Namespaces& sides;
};

/// The bridge of the config: created if missing, set up, with router advertisements disabled
/// (CVE-2020-10749). Shared by all pods; no pod removes it. The MAC address of a bridge
/// that carries the gateway address is fixed.
/// \throws cni::Error if a link of that name is no bridge, or lacks the VLAN filtering that the
/// config needs.
/// mac: of a bridge that is created or has none (a foreign one without ports); absent: chosen.
netlink::Link ensure_bridge(netlink::RouteSocket& host, const Conf& conf,
                            const std::optional<netlink::Mac>& mac = {});

/// Whether the bridge itself has the gateway addresses, so that pods know its MAC address.
bool carries_gateway(const Conf& conf);

/// The errors of ensure_bridge() for an existing bridge.
void require_usable(const netlink::Link& bridge, const Conf& conf);

/// The link with the gateway address of an access VLAN, "BRIDGE.VLAN": a veth whose peer is a port
/// of the bridge in that VLAN. Created if missing, attached again if the bridge was recreated;
/// shared.
netlink::Link ensure_vlan_gateway(netlink::RouteSocket& host, const netlink::Link& bridge,
                                  const Conf& conf);

/// The peer of the VLAN gateway's veth, if it is in this namespace and either a port or created by
/// ensure_vlan_gateway(). Nothing for a link of another kind, which an operator configured.
std::optional<netlink::Link> vlan_gateway_port(netlink::RouteSocket& host,
                                               const netlink::Link& gateway);

/// The gateway address of each address that has a gateway: with the prefix of its subnet, or alone
/// where it is in another.
std::vector<cni::Cidr> gateways_of(const cni::Result& result);

/// Whether the gateway is in another subnet than the address, so that the node has no route to the
/// pod by it.
bool is_elsewhere(const cni::Address& address);

/// Assigns the gateway addresses to the bridge, or to the link of the access VLAN, with a route to
/// the subnet of an address whose gateway is elsewhere, and enables forwarding. Returns the link
/// with the addresses. \throws cni::Error for an address alone (/32, /128) whose gateway is
/// elsewhere.
netlink::Link ensure_gateway(const Context& context, const netlink::Link& bridge,
                             const cni::Result& result, plugins::OtherAddresses others);

/// Adds the routes to the subnets that the kernel added with the gateway addresses, where packets
/// to the pod take another way. A route of others to the same subnet stays.
void restore_routes(const Context& context, const netlink::Link& device, const cni::Result& result);

/// The requests that put a port into the VLANs of the config. with_trunk: also the tagged ones.
std::vector<netlink::RouteRequest> port_vlans(const netlink::Link& port,
                                              const netlink::Link& bridge, const Conf& conf,
                                              bool with_trunk);

/// A pod's veth pair; the host veth is a port of the bridge.
using Port = plugins::VethPair;

/// plugins::create_veth_pair() with the host veth as a port of bridge. \throws as that; cni::Error
/// if the bridge has no room.
Port connect_pod(const Context& context, const netlink::Link& bridge, cni::Undo& undo);

/// Sets VLANs, flags and alias (the owner) of the port, and sets it up.
void open_port(const Context& context, const Port& port, const netlink::Link& bridge);

/// Restores the host veth of an existing container interface as connect_pod() and open_port() set
/// it: a port of bridge with the config's VLANs and flags, up.
void restore_port(const Context& context, const Port& port, const netlink::Link& bridge);

/// Waits until the bridge forwards the port's frames. \throws cni::Error after 2.5 seconds.
void wait_for_port(netlink::RouteSocket& host, const netlink::Link& outside);

}  // namespace bridge

#pragma once

#include "libcni/config/result.h"
#include "netlink/route/socket.h"
#include "plugins/bridge/conf.h"

namespace bridge {

/// The bridge of the config: made where it is missing, set up, deaf to router advertisements
/// (CVE-2020-10749). Shared by all pods: one pod never takes it down. The MAC address of a bridge
/// that carries the gateway address is fixed.
/// \throws cni::Error where a link of that name is no bridge, or lacks the VLAN filtering that the
/// config needs.
/// mac: of a bridge that is made; absent: a random one.
netlink::Link ensure_bridge(netlink::RouteSocket& host, const Conf& conf,
                            const std::optional<netlink::Mac>& mac = {});

/// Complaints of ensure_bridge() about a bridge that is there.
void require_usable(const netlink::Link& bridge, const Conf& conf);

/// The link that carries the gateway address of an access VLAN, "BRIDGE.VLAN": one end of a veth
/// pair whose other end is a port of the bridge in that VLAN. Made where it is missing, put into
/// the bridge again where that was deleted meanwhile; shared.
netlink::Link ensure_vlan_gateway(netlink::RouteSocket& host, const netlink::Link& bridge,
                                  const Conf& conf);

/// The other end of the VLAN gateway's pair, if it is in this namespace and either a port already
/// or the link that ensure_vlan_gateway() made. Nothing for a link of another kind: whoever made
/// that has found a way of their own.
std::optional<netlink::Link> vlan_gateway_port(netlink::RouteSocket& host,
                                               const netlink::Link& gateway);

/// The gateway's addresses on the bridge, or on the link of the access VLAN, and forwarding turned
/// on. Returns the link that carries them.
netlink::Link ensure_gateway(netlink::RouteSocket& host, const netlink::Link& bridge,
                             const Conf& conf, const cni::Result& result);

/// The requests that put a port into the VLANs of the config. with_trunk: also the tagged ones.
std::vector<netlink::Request> port_vlans(const netlink::Link& port, const netlink::Link& bridge,
                                         const Conf& conf, bool with_trunk);

/// Turns router advertisements off on a link of this namespace, as far as the kernel lets us.
void ignore_router_advertisements(const netlink::Link& link);

}  // namespace bridge

#pragma once

#include "libcni/config/result.h"
#include "libcni/plugin/repair.h"
#include "plugins/bridge/link.h"

namespace bridge {

/// The parts of check_attachment(), for REPAIR. Each \throws cni::Error naming its first
/// difference.
netlink::Link check_bridge(const Context& context, const cni::Result& result);
/// The host veth of the container interface; \throws also if none exists.
netlink::Link find_outside(const Context& context, const netlink::Link& inside);
void check_port(const Context& context, const cni::Result& result, const Port& port,
                const netlink::Link& bridge);
/// The container interface, which must be that of the result.
netlink::Link find_inside(const Context& context, const cni::Result& result);
void check_gateway(const Context& context, const cni::Result& result, const netlink::Link& bridge);

/// Compares the attachment with result and config.
/// \throws cni::Error naming the first difference.
void check_attachment(const Context& context, const cni::Result& result);

/// STATUS: what ADD needs on this node, except IPAM.
/// \throws cni::Error(kPluginUnavailable) naming what is missing.
void require_node_support(const Conf& conf);

/// Restores what is missing on the node: the bridge with its MAC address in the result, the port,
/// gateway address, masquerading, rules of macspoofchk. The container interface must exist and is
/// not changed. IPAM is not called.
cni::Result repair(const cni::Request& request, cni::Repair& repair);

}  // namespace bridge

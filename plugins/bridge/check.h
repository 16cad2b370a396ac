#pragma once

#include <vector>

#include "libcni/config/result.h"
#include "plugins/bridge/port.h"

namespace bridge {

/// The parts of check_attachment(), for REPAIR. Each \throws cni::Error naming its first
/// difference.
netlink::Link check_bridge(const Context& context, const cni::Result& result);
/// The other end of the pod's interface; \throws also where there is none.
netlink::Link find_outside(const Context& context, const netlink::Link& inside);
void check_port(const Context& context, const cni::Result& result, const Port& port);
/// The pod's interface: that it is the one of the result.
netlink::Link find_inside(const Context& context, const cni::Result& result);
void check_gateway(const Context& context, const cni::Result& result);

/// Compares the attachment with what the result says and the config asks for.
/// \throws cni::Error naming the first difference.
void check_attachment(const Context& context, const cni::Result& result);

/// STATUS: what an ADD needs of this node, IPAM aside.
/// \throws cni::Error(kPluginUnavailable) naming what is missing.
void require_node_support(const Conf& conf);

}  // namespace bridge

#pragma once

#include <vector>

#include "libcni/result.h"
#include "plugins/bridge/port.h"

namespace bridge {

/// Compares the attachment with what the result says and the config asks for.
/// \throws cni::Error naming the first difference.
void check_attachment(const Wiring& wiring, const cni::Result& result);

/// STATUS: what an ADD needs of this node, IPAM aside.
/// \throws cni::Error(kPluginUnavailable) naming what is missing.
void require_node_support(const Conf& conf);

}  // namespace bridge

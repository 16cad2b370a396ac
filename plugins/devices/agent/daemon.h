#pragma once

#include "plugins/devices/agent/options.h"
#include "plugins/devices/agent/pools/pools.h"

namespace devices {

/// Serves until SIGINT or SIGTERM. \throws cni::Error, netlink::Error where it cannot start.
void serve(Pools pools, const Options& options);

}  // namespace devices

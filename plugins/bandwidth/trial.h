#pragma once

#include "plugins/bandwidth/conf.h"

namespace bandwidth {

/// Creates what ADD would create, in a new network namespace.
/// \throws cni::Error(kPluginUnavailable) naming what the kernel, or this build, lacks for the
/// config's mode and queue.
void try_limits(const Conf& conf);

}  // namespace bandwidth

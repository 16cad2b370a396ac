#pragma once

#include "plugins/bandwidth/conf.h"

namespace bandwidth {

/// Makes what an ADD would make, in a new network namespace that nobody else sees.
/// \throws cni::Error(kPluginUnavailable) naming what the kernel, or this build, lacks for the
/// config's mode and queue.
void try_limits(const Conf& conf);

}  // namespace bandwidth

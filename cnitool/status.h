#pragma once

#include "libcni/runtime/runtime.h"

namespace tool {

/// The list for a call of STATUS, which is of 1.1.0: with that version and the plugins that know
/// it. A list has an older one because of the node's runtime, which takes no part in this call.
cni::NetworkList with_status(const cni::Runtime& runtime, cni::NetworkList list);

}  // namespace tool

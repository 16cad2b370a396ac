#pragma once

#include "libcni/runtime/runtime.h"

namespace tool {

/// The list for a call of STATUS, which is of 1.1.0: with that version and the plugins that know
/// it. A list has an older one for the runtime of its node, and a person who asks is none.
cni::NetworkList with_status(const cni::Runtime& runtime, cni::NetworkList list);

}  // namespace tool

#pragma once

#include <string>

#include "cnitool/output.h"
#include "libcni/runtime/runtime.h"

namespace tool {

/// Which attachments; what is empty is all.
struct Selection {
  std::string network, container_id;
};

/// Makes again what was removed from the node of every attachment in the cache whose pod is there:
/// bridges, ports, masquerading, hostPorts, limits. Restores devices of the others. Prints for each
/// what it came to. dry_run: it is only said. False where something could not be repaired, or, with
/// dry_run, has to be.
bool repair(const Selection& which, bool dry_run, const cni::RuntimeOptions& options,
            const Output& output);

}  // namespace tool

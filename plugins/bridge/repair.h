#pragma once

#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"

namespace bridge {

/// Restores what is missing on the node: the bridge with its MAC address in the result, the port,
/// gateway address, masquerading, rules of macspoofchk. The container interface must exist and is
/// not changed. IPAM is not called.
cni::Result repair(const cni::Request& request, cni::Repair& repair);

}  // namespace bridge

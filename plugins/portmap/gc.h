#pragma once

#include <string>
#include <vector>

#include "libcni/plugin/collect.h"
#include "libcni/plugin/request.h"

namespace portmap {

/// GC: removes all mappings of a network except those of valid attachments, also if the state file
/// is unreadable. \throws cni::Error, which lists what could not be removed; kTryAgainLater without
/// any change if another call has the lock.
void remove_stale(const std::string& network, cni::Collect& collect);

}  // namespace portmap

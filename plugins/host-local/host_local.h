#pragma once

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/request.h"

namespace host_local {

/// The plugin's name and verbs.
extern const cni::Plugin kPlugin;

/// Allocates one address from every range set. \throws as allocate(), Conf::parse(), take_lock().
cni::Result add(const cni::Request& request, cni::Undo& undo);
/// \throws cni::Error where the attachment has no lease, or the config is invalid.
void check(const cni::Request& request);
/// Releases the attachment's leases. Needs no valid config and creates no directory.
void del(const cni::Request& request);
/// Releases leases that no valid attachment has; none without a list. \throws if it is malformed.
void gc(const cni::Request& request);
/// \throws cni::Error: 7 for an invalid config, 50 where a range set is exhausted.
void status(const cni::Request& request);
/// \throws cni::Error where ADD would reject the input, on any node.
void validate(const cni::Request& request);

}  // namespace host_local

#pragma once

#include "plugins/portmap/backend.h"

/// Pods that are gone without DEL, as after k3s-killall.sh: their ports lead to addresses that IPAM
/// gives to the next pods, which nobody may reach by them.
namespace portmap {

/// Removes the mappings that lead to an address of the attachment, of attachments that do not exist
/// any more. Whoever lives keeps its own: ranges of networks overlap. The number of pods does not
/// matter. The caller has the lock.
void unmap_predecessors(const Context& context, const Attachment& attachment);

/// The same for a pod that maps no ports: takes the lock where the address has mappings.
void unmap_predecessors(const Attachment& attachment);

/// Removes from the index, for GC, what is stale or has no state file. The caller has the lock.
void forget_addresses(const StateDir& state, const std::function<bool(const Tag&)>& is_stale);

}  // namespace portmap

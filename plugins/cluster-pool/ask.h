#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugins/cluster-pool/share.h"
#include "plugins/leases/store.h"
#include "plugins/state/blocks.h"

/// What cluster-pool says to patchbay-agent, and the agent to the operator.
namespace cluster_pool {

/// Whether it is time to count leases, after an ADD: of large shares one of four says it, by its
/// address, because a quarter of such a share is many ADDs.
bool is_time_to_count(const std::vector<SetShare>& shares, const netlink::Ip& allocated);
/// Adds the sets that are nearly full.
void add_nearly_full(blocks::Want& want, const std::vector<SetShare>& shares,
                     const leases::Store& store);

/// Why the node has no further block, for the details of an error.
std::string agent_says(const blocks::Folder& folder, const std::string& network,
                       const std::optional<blocks::Held>& held);

}  // namespace cluster_pool

#pragma once

#include <cstddef>

#include "kubernetes/access.h"
#include "kubernetes/path.h"
#include "plugins/devices/agent/dra/slices/own_slices.h"
#include "plugins/devices/agent/pools/pools.h"

namespace devices::dra {

/// The ResourceSlices of the API.
const kubernetes::Collection& slice_objects();
/// Selects those of a driver on a node.
kubernetes::Query selector_of(const Publisher& of);

/// How this node reaches the API server. \throws cni::Error: in_cluster(), from_kubeconfig().
kubernetes::Access access_of(const Dra& dra);

/// Removes the slices of this node, for the removal of the agent. Returns their number.
/// \throws cni::Error: access_of(), an error of the API server.
std::size_t withdraw_slices(const Dra& dra);

}  // namespace devices::dra

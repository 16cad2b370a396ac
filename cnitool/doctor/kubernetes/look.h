#pragma once

#include <string>
#include <vector>

#include "cnitool/doctor/kubernetes/cluster.h"
#include "cnitool/doctor/node.h"
#include "cnitool/settings.h"

namespace tool::doctor::kubernetes {

/// The processes of the node that have something to do with pod networks, and its runtime.
void look_at_runtime(Cluster& cluster);

/// Reads the rest, of a node whose networks are known. Changes nothing.
void look_at_cluster(Cluster& cluster, const Node& node);

// links.cc
/// The patterns of "interface-name:" in unmanaged-devices of NetworkManager.
std::vector<std::string> unmanaged_links();
/// The patterns of links for which the first *.link file that matches has MACAddressPolicy=none.
std::vector<std::string> pinned_links();
/// The kinds of links that the networks' plugins make and the kernel does not know.
std::vector<std::string> lost_kinds_of(const cni::Networks& networks);

}  // namespace tool::doctor::kubernetes

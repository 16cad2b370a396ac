#pragma once

#include <string>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/kubernetes/cluster.h"
#include "cnitool/doctor/networks.h"

/// The checks of a node of Kubernetes. They are run where Node::cluster is known.
namespace tool::doctor::kubernetes {

std::span<const Check> all_checks();

/// The network that the runtime attaches pods to; null: none.
const cni::NetworkList* pod_network(const Node& node);
/// The file that the runtime takes it from; empty: none.
std::string pod_network_file(const Node& node);

/// "in FILE set "KEY": VALUE in the plugin "bridge"", or in the delegate of flannel.
std::string setting_of(const BridgeNetwork& network, const std::string& key,
                       const std::string& value);

/// A command that writes a kernel setting; the key has slashes.
std::string sysctl_command(const std::string& key, const std::string& value);

/// The command that makes flanneld write its subnet again.
std::string restart_flannel(const Cluster& cluster);

/// The addresses of pods on this node: of the Node object, else of subnet.env; empty: unknown.
std::vector<KnownRange> pod_subnets(const Cluster& cluster);

// check_kernel.cc
Findings check_bridge_module(const Node& node);
Findings check_forwarding(const Node& node);
Findings check_router_advertisements(const Node& node);
Findings check_hairpin(const Node& node);
Findings check_overlay_filter(const Node& node);
Findings check_kernel_features(const Node& node);
Findings check_overlay_mtu(const Node& node);
// links.cc
Findings check_network_manager(const Node& node);
Findings check_mac_policy(const Node& node);
// check_runtime.cc
Findings check_runtime_config(const Node& node);
Findings check_runtime_dirs(const Node& node);
Findings check_first_network(const Node& node);
Findings check_plugin_dirs(const Node& node);
Findings check_plugin_owners(const Node& node);
// check_subnets.cc
Findings check_pod_subnets(const Node& node);
Findings check_lease_ranges(const Node& node);
Findings check_subnet_env(const Node& node);
Findings check_cluster_ranges(const Node& node);
// check_service_marks.cc
Findings check_service_marks(const Node& node);

}  // namespace tool::doctor::kubernetes

#include "cnitool/doctor/kubernetes/checks.h"

#include <algorithm>

#include "cnitool/doctor/checks.h"

namespace tool::doctor::kubernetes {

namespace {

bool has_bridge_networks(const Node& node) { return !bridge_networks(node).empty(); }
bool is_known(const Node& node) { return !node.cluster->runtime.name.empty(); }
bool has_subnets(const Node& node) { return !pod_subnets(*node.cluster).empty(); }
bool has_flannel(const Node& node) {
  const auto& lists = node.networks.lists;
  return std::ranges::any_of(
      lists, [](const auto& list) { return plugin_with(cni::Fact::kDelegates, list) != nullptr; });
}

using enum Source;

constexpr Check kChecks[] = {
    {"runtime config", Part::kRuntime, "the runtime has read its config", check_runtime_config},
    {"runtime directories",
     Part::kRuntime,
     "networks and plugins are those of the runtime",
     check_runtime_dirs,
     {},
     is_known},
    {"first network", Part::kRuntime, "pods get the cluster's network", check_first_network,
     kNetworks},
    {"plugin directories", Part::kRuntime, "plugins can be executed", check_plugin_dirs},
    {"plugin owners", Part::kRuntime, "all plugins are of patchbay", check_plugin_owners,
     kNetworks},
    {"kernel features", Part::kRuntime, "the kernel has the links of all plugins",
     check_kernel_features, kNetworks | kRoutes},
    {"br_netfilter", Part::kCluster, "bridged packets pass iptables", check_bridge_module,
     kNetworks, has_bridge_networks},
    {"forwarding", Part::kCluster, "the node forwards packets", check_forwarding, kPools | kRoutes},
    {"router advertisements", Part::kCluster, "the default route of IPv6 stays",
     check_router_advertisements, kRoutes},
    {"hairpin", Part::kCluster, "a pod reaches itself through its Service", check_hairpin,
     kNetworks | kRoutes, has_bridge_networks},
    {"overlay reverse path", Part::kCluster, "the reverse path filter drops no packets of pods",
     check_overlay_filter, kRoutes},
    {"overlay MTU", Part::kCluster, "packets of pods fit into those of the overlay",
     check_overlay_mtu, kNetworks | kRoutes},
    {"NetworkManager", Part::kCluster, "NetworkManager leaves links of pods alone",
     check_network_manager, kRoutes},
    {"MAC policy", Part::kCluster, "bridges keep their MAC addresses", check_mac_policy, kNetworks,
     has_bridge_networks},
    {"pod subnets", Part::kCluster, "the network has the node's pod subnets", check_pod_subnets,
     kNetworks | kPools, has_subnets},
    {"lease ranges", Part::kCluster, "all pods have addresses of their networks",
     check_lease_ranges, kPools | kCache},
    {"subnet.env", Part::kCluster, "flanneld has written the node's subnet", check_subnet_env,
     kNetworks, has_flannel},
    {"cluster ranges", Part::kCluster, "nodes, pods and Services have addresses of their own",
     check_cluster_ranges, kPools | kRoutes},
    {"Service marks", Part::kCluster, "portmap finds the chains of kube-proxy", check_service_marks,
     kNetworks | kFirewall}};

}  // namespace

std::span<const Check> all_checks() { return kChecks; }

std::string pod_network_file(const Node& node) {
  const Cluster& cluster = *node.cluster;
  if (!cluster.runtime.network.empty()) {
    const auto* const named = node.network(cluster.runtime.network);
    return named == nullptr ? "" : named->file;
  }
  if (cluster.conf_files.empty()) return {};
  return cat(node.networks.dir, "/", cluster.conf_files.front());
}

const cni::NetworkList* pod_network(const Node& node) {
  return find_by(node.networks.lists, &cni::NetworkList::file, pod_network_file(node));
}

std::string setting_of(const BridgeNetwork& network, const std::string& key,
                       const std::string& value) {
  return cat("in ", network.list->file, " set \"", key, "\": ", value,
             network.is_delegate ? " in \"delegate\" of the plugin \"flannel\""
                                 : cat(" in the plugin \"", network.plugin, "\""));
}

std::string sysctl_command(const std::string& slashed, const std::string& value) {
  std::string key = slashed;
  for (char& c : key) c = c == '/' ? '.' : c == '.' ? '/' : c;
  return cat("sysctl -w ", key, "=", value);
}

std::string restart_flannel(const Cluster& cluster) {
  const std::string& unit = cluster.runtime.unit;
  if (unit.starts_with("k3s")) return cat("systemctl restart ", unit);
  return "kubectl -n kube-flannel rollout restart daemonset kube-flannel-ds";
}

std::vector<KnownRange> pod_subnets(const Cluster& cluster) {
  std::vector<KnownRange> out;
  if (cluster.object) {
    for (const auto& one : cluster.object->pod_cidrs) {
      out.push_back({one.network(), cat("Node '", cluster.object->name, "'")});
    }
  }
  if (!out.empty() || !cluster.subnet_env) return out;
  for (const auto& one : {cluster.subnet_env->subnet, cluster.subnet_env->ipv6_subnet}) {
    if (one) out.push_back({one->network(), cluster.subnet_file});
  }
  return out;
}

}  // namespace tool::doctor::kubernetes

#include <algorithm>

#include "cnitool/doctor/kubernetes/checks.h"

namespace tool::doctor::kubernetes {

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
  const char* const plugin = network.bridge.empty() ? "ptp" : "bridge";
  return cat("in ", network.list->file, " set \"", key, "\": ", value,
             network.is_delegate ? " in \"delegate\" of the plugin \"flannel\""
                                 : cat(" in the plugin \"", plugin, "\""));
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

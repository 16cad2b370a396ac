#include <algorithm>

#include "cnitool/doctor/kubernetes/checks.h"

// Addresses of nodes, pods and Services: no two may overlap.
namespace tool::doctor::kubernetes {

namespace {

// The networks of the links by which the node reaches others.
std::vector<KnownRange> node_ranges(const Node& node) {
  std::vector<KnownRange> out;
  Names links = uplinks(node, netlink::Family::kIpv4);
  for (const auto& name : uplinks(node, netlink::Family::kIpv6)) links.push_back(name);
  for (const netlink::LinkAddress& one : node.addresses) {
    const netlink::Link* const link = node.link(one.link);
    if (link == nullptr || std::find(links.begin(), links.end(), link->name) == links.end()) {
      continue;
    }
    if (!one.cidr.ip.is_link_local()) {
      out.push_back({one.cidr.network(), cat("the network of '", link->name, "'")});
    }
  }
  return out;
}

// All pods of the cluster, or as many as this node knows.
std::vector<KnownRange> pod_ranges(const Node& node) {
  const Cluster& cluster = *node.cluster;
  std::vector<KnownRange> out;
  if (cluster.subnet_env) {
    for (const auto& all : {cluster.subnet_env->networks, cluster.subnet_env->ipv6_networks}) {
      for (const auto& one : all) out.push_back({one, "the pod network"});
    }
  }
  if (!out.empty()) return out;
  for (const KnownRange& one : pod_subnets(cluster)) {
    out.push_back({one.range, cat("the pod subnet of ", one.source)});
  }
  if (!out.empty()) return out;
  for (const Subnet& one : subnets(node)) {
    out.push_back({one.range.subnet.network(), cat("the subnet of network '", one.network, "'")});
  }
  return out;
}

void compare(const std::vector<KnownRange>& all, const std::vector<KnownRange>& others,
             const std::string& remedy, Findings& out) {
  for (const KnownRange& one : all) {
    for (const KnownRange& other : others) {
      if (!overlap(one.range, other.range)) continue;
      out.push_back({Level::kError,
                     cat(one.source, " ", one.range.str(), " overlaps ", other.source, " ",
                         other.range.str()),
                     "packets to one of the two reach the other", remedy});
    }
  }
}

}  // namespace

Findings check_cluster_ranges(const Node& node) {
  std::vector<KnownRange> services;
  for (const KnownRange& one : node.cluster->services) {
    services.push_back({one.range, cat("the Service network (", one.source, ")")});
  }
  const auto pods = pod_ranges(node);
  const auto nodes = node_ranges(node);
  Findings out;
  compare(
      pods, nodes,
      "give the cluster another pod network: --pod-network-cidr of kubeadm, --cluster-cidr of k3s",
      out);
  constexpr const char* kServices =
      "give the cluster another Service network: --service-cidr of kubeadm init and of k3s";
  compare(services, pods, kServices, out);
  compare(services, nodes, kServices, out);
  return out;
}

}  // namespace tool::doctor::kubernetes

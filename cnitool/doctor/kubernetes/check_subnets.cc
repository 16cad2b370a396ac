#include <algorithm>

#include "cnitool/doctor/kubernetes/checks.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/json_at.h"
#include "cnitool/output.h"

// The subnet of the node's pods: the Node object, flanneld's file, the network's config and
// leases agree.
namespace tool::doctor::kubernetes {

namespace {

using netlink::Cidr;

Names texts_of(const std::vector<KnownRange>& ranges) {
  Names out;
  for (const KnownRange& one : ranges) out.push_back(one.range.str());
  return out;
}

std::vector<Subnet> subnets_of(const Node& node, const std::string& network) {
  std::vector<Subnet> out = subnets(node);
  std::erase_if(out, [&](const Subnet& one) { return one.network != network; });
  return out;
}

// The subnet is in none of the ranges that the cluster gives this node.
bool is_foreign(const Cidr& subnet, const std::vector<KnownRange>& given) {
  return std::ranges::none_of(given, [&](const KnownRange& one) {
    return one.range.contains(subnet.ip) && subnet.prefix >= one.range.prefix;
  });
}

std::string ranges_remedy(const cni::NetworkList& list, const Node& node,
                          const std::vector<KnownRange>& given) {
  const Cluster& cluster = *node.cluster;
  const nlohmann::json* const flannel = plugin_with(cni::Fact::kDelegates, list);
  if (flannel != nullptr) return restart_flannel(cluster);
  const nlohmann::json* const conf = plugin_with(cni::Fact::kBridge, list);
  const nlohmann::json* const ipam =
      member(conf == nullptr ? *list.plugins[0].conf : *conf, "ipam");
  if (ipam != nullptr && !text_at(*ipam, "subnet").empty()) {
    return cat("in ", list.file, " set \"subnet\": \"", given.front().range.str(),
               "\" in \"ipam\"");
  }
  std::string sets;
  for (const KnownRange& one : given) {
    sets += cat(sets.empty() ? "" : ", ", "[{\"subnet\": \"", one.range.str(), "\"}]");
  }
  return cat("in ", list.file, " set \"ranges\": [", sets, "] in \"ipam\"");
}

Names pods_outside(const Node& node, const std::string& network,
                   const std::vector<netlink::Ip>& leases) {
  Names out;
  for (const AttachmentState& one : node.attachments) {
    const auto& ips = one.result.ips;
    const bool is_meant = one.is_alive() && one.key.network == network &&
                          std::ranges::any_of(ips, [&](const cni::Address& ip) {
                            return std::ranges::find(leases, ip.cidr.ip) != leases.end();
                          });
    if (is_meant) out.push_back(name_of(node, one.key));
  }
  return out;
}

// The networks of the links by which the node reaches others.
std::vector<KnownRange> node_ranges(const Node& node) {
  std::vector<KnownRange> out;
  Names links = uplinks(node, netlink::Family::kIpv4);
  for (const auto& name : uplinks(node, netlink::Family::kIpv6)) links.push_back(name);
  for (const netlink::LinkAddress& one : node.addresses) {
    const netlink::Link* const link = node.link(one.link);
    if (link == nullptr || std::ranges::find(links, link->name) == links.end()) {
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

Findings check_pod_subnets(const Node& node) {
  const cni::NetworkList* const list = pod_network(node);
  const auto given = pod_subnets(*node.cluster);
  if (list == nullptr || given.empty()) return {};
  Findings out;
  const Cluster& cluster = *node.cluster;
  if (cluster.object && cluster.subnet_env) {
    for (const auto& one : {cluster.subnet_env->subnet, cluster.subnet_env->ipv6_subnet}) {
      if (!one || !is_foreign(one->network(), given)) continue;
      out.push_back({Level::kError,
                     cat(cluster.subnet_file, " has ", one->network().str(), ", and ",
                         given.front().source, " has podCIDRs ", joined(texts_of(given))),
                     "other nodes send packets to these pods elsewhere",
                     restart_flannel(cluster),
                     {list->name}});
    }
    if (!out.empty()) return out;
  }
  for (const Subnet& one : subnets_of(node, list->name)) {
    if (!is_foreign(one.range.subnet, given)) continue;
    out.push_back({Level::kError,
                   cat("network '", list->name, "' has subnet ", one.range.subnet.str(), ", and ",
                       given.front().source, " has ", joined(texts_of(given))),
                   "other nodes have no route to these pods",
                   ranges_remedy(*list, node, given),
                   {list->name}});
    break;
  }
  return out;
}

Findings check_lease_ranges(const Node& node) {
  Findings out;
  for (const Pool& pool : node.pools) {
    if (pool.sets.empty()) continue;
    std::vector<netlink::Ip> outside;
    Names texts;
    for (const Reservation& one : pool.reservations) {
      const bool is_in = std::ranges::any_of(pool.sets, [&](const auto& set) {
        return std::ranges::any_of(
            set.ranges, [&](const auto& range) { return range.subnet.contains(one.ip); });
      });
      if (is_in) continue;
      outside.push_back(one.ip);
      texts.push_back(one.ip.str());
    }
    const Names pods = pods_outside(node, pool.network, outside);
    if (pods.empty()) continue;  // without a pod it is stale, which check_leftovers() says
    out.push_back({Level::kWarning,
                   cat("pods of network '", pool.network,
                       "' have addresses outside of its subnets: ", some_of(texts)),
                   "the subnet of the node has changed: other nodes do not reach these pods",
                   cat("restart ", some_of(pods)),
                   {pool.network}});
  }
  return out;
}

Findings check_subnet_env(const Node& node) {
  const Cluster& cluster = *node.cluster;
  const auto& lists = node.networks.lists;
  const bool is_used = std::ranges::any_of(
      lists, [](const auto& list) { return plugin_with(cni::Fact::kDelegates, list) != nullptr; });
  if (!is_used) return {};
  constexpr const char* kWhy = "ADD of the plugin flannel fails until flanneld has written it";
  const std::string remedy = restart_flannel(cluster);
  if (!cluster.subnet_env_failure.empty()) {
    return {{Level::kError, cluster.subnet_env_failure, kWhy, remedy}};
  }
  if (!cluster.subnet_env) {
    return {{Level::kError, cat(cluster.subnet_file, " does not exist"), kWhy, remedy}};
  }
  if (const auto missing = cluster.subnet_env->missing(); !missing.empty()) {
    return {{Level::kError,
             cat(cluster.subnet_file, " lacks ", joined(Names(missing.begin(), missing.end()))),
             kWhy, remedy}};
  }
  const Process* const flanneld = cluster.process("flanneld");
  if (flanneld == nullptr || cluster.subnet_env_written >= flanneld->started) return {};
  return {{Level::kWarning, cat(cluster.subnet_file, " is older than the flanneld that runs"),
           "the node may have another subnet by now: flanneld has not got one yet", remedy}};
}

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

#include <set>

#include "cnitool/doctor/agents.h"
#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/kubernetes/checks.h"
#include "cnitool/doctor/peers.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/leases.h"
#include "cnitool/output.h"

// Counts what the checks of each part looked at.
namespace tool::doctor {

namespace {

std::string configs(const Node& node) {
  return cat(counted(node.networks.lists.size(), "network"), " in ", node.networks.dir);
}

std::string plugins(const Node& node) {
  return cat(counted(node.programs.size(), "plugin"), " in ", joined(node.plugin_path, ":"));
}

std::string attachments(const Node& node) {
  std::set<std::string> pods;
  for (const AttachmentState& one : node.attachments) pods.insert(one.key.container_id);
  return cat(counted(node.attachments.size(), "attachment"), " of ", counted(pods.size(), "pod"));
}

std::string addresses(const Node& node) {
  std::size_t used = 0, sets = 0;
  for (const Pool& pool : node.pools) {
    used += pool.reservations.size();
    sets += pool.sets.size();
  }
  return cat(counted(used, "address"), " allocated in ", counted(sets, "range"));
}

std::string leases(const Node& node) { return counted(node.leases.size(), "DHCP lease"); }

std::string devices(const Node& node) {
  std::size_t all = 0;
  for (const DeviceAgent& one : node.device_agents) all += one.devices;
  return cat(counted(all, "device"), " of pods");
}

std::string firewall(const Node& node) {
  std::size_t ports = 0;
  for (const AttachmentState& one : node.attachments) ports += one.host_ports.size();
  return cat(counted(node.firewall.chains.size(), "chain"), ", ", counted(ports, "hostPort"));
}

std::string settings(const Node& node) {
  std::set<std::string> names;
  for (const auto family : netlink::kFamilies) {
    for (const std::string& name : uplinks(node, family)) names.insert(name);
  }
  return cat(counted(node.links.size(), "link"), ", ", counted(node.routes.size(), "route"), ", ",
             names.empty() ? "no uplink" : cat("uplink ", joined({names.begin(), names.end()})));
}

std::string runtime(const Node& node) {
  const RuntimeConfig& one = node.cluster->runtime;
  if (one.name.empty()) return "not found";
  return cat(one.name, one.started == 0 ? ", not running" : "",
             one.file.empty() ? "" : cat(", ", one.file));
}

std::string cluster(const Node& node) {
  const cni::NetworkList* const list = kubernetes::pod_network(node);
  Names subnets;
  for (const auto& one : kubernetes::pod_subnets(*node.cluster)) {
    subnets.push_back(one.range.str());
  }
  return cat(list == nullptr ? "no pod network" : cat("pod network ", list->name),
             subnets.empty() ? "" : cat(", ", joined(subnets)));
}

std::string peers(const Node& node) {
  std::size_t routes = 0;
  for (const Peer& one : node.peers) routes += one.is_this() ? 0 : one.subnets.size();
  return cat(counted(node.peers.size(), "node"), ", ", counted(routes, "subnet"));
}

constexpr PartInfo kParts[] = {{Part::kConfigs, "configs", configs},
                               {Part::kPlugins, "plugins", plugins},
                               {Part::kAttachments, "attachments", attachments},
                               {Part::kAddresses, "addresses", addresses},
                               {Part::kDhcp, "DHCP leases", leases},
                               {Part::kDevices, "devices", devices},
                               {Part::kFirewall, "firewall", firewall},
                               {Part::kNode, "node", settings},
                               {Part::kRuntime, "runtime", runtime},
                               {Part::kCluster, "cluster", cluster},
                               {Part::kPeers, "peers", peers}};

}  // namespace

std::span<const PartInfo> all_parts() { return kParts; }

}  // namespace tool::doctor

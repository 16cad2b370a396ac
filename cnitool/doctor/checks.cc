#include "cnitool/doctor/checks.h"

#include <algorithm>

#include "cnitool/doctor/agents.h"
#include "cnitool/doctor/kubernetes/checks.h"
#include "cnitool/doctor/places.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/leases.h"
#include "cnitool/node_runtimes.h"

namespace tool::doctor {

namespace {

bool has_attachments(const Node& node) { return !node.attachments.empty() || !node.broken.empty(); }
bool has_bridges(const Node& node) { return !bridge_networks(node).empty(); }
bool has_pools(const Node& node) { return !node.pools.empty(); }
// One pod is not the less attached for what these checks find.
bool is_of_all_pods(const Node& node) { return !node.is_of_one_pod(); }

using enum Source;

// The order is that in which an operator would ask.
constexpr Check kChecks[] = {
    {"networks", Part::kConfigs, "every config is valid", check_networks, kNetworks},
    {"network names", Part::kConfigs, "every network has one file", check_names, kNetworks},
    {"permissions",
     Part::kConfigs,
     "only root can write configs, plugins and state",
     check_permissions,
     {},
     is_of_all_pods},
    {"plugins", Part::kPlugins, "every plugin exists and answers VERSION", check_plugins,
     kNetworks},
    {"spec versions", Part::kPlugins, "the plugins support the versions of their networks",
     check_versions, kNetworks},
    {"runtime", Part::kConfigs, "the runtime supports the versions of the networks", check_runtimes,
     kNetworks, [](const Node& node) { return !node.runtimes.empty(); }},
    {"releases", Part::kPlugins, "the plugins are of one release", check_releases},
    {"status", Part::kPlugins, "STATUS of all plugins succeeds", check_status, kNetworks | kStatus},
    {"state files", Part::kAttachments, "every state file is of this release or an earlier one",
     check_state_files, kCache | kPods, [](const Node& node) { return !node.later_files.empty(); }},
    {"attachments", Part::kAttachments, "every attachment has its pod", check_dead, kCache,
     has_attachments},
    {"namespaces", Part::kAttachments, "every pod that lives is at the path of its namespace",
     check_namespaces, kCache, has_attachments},
    {"pods", Part::kAttachments, "the plugins find every pod as ADD left it", check_pods,
     kCache | kPods, has_attachments},
    {"probes",
     Part::kAttachments,
     "packets arrive where the configs promise",
     check_probes,
     {},
     [](const Node& node) { return node.probed != nullptr; }},
    {"hostPorts", Part::kAttachments, "no process of the node listens on a hostPort",
     check_host_ports, kCache | kPods,
     [](const Node& node) {
       return std::ranges::any_of(node.attachments,
                                  [](const auto& one) { return !one.host_ports.empty(); });
     }},
    {"default routes", Part::kAttachments, "no pod has two default routes of a family",
     check_ways_out, kCache, has_attachments},
    {"leftovers", Part::kAttachments, "GC would remove nothing", check_leftovers,
     kCache | kLeftovers},
    {"links", Part::kAttachments, "every ifb has its pod", check_links, kCache | kRoutes,
     [](const Node& node) {
       return find_by(node.links, &netlink::Link::kind, std::string("ifb")) != nullptr;
     }},
    {"address pools", Part::kAddresses, "enough addresses are free", check_pools, kPools,
     [](const Node& node) { return has_pools(node) && is_of_all_pods(node); }},
    {"blocks", Part::kAddresses, "this node has the blocks that its pods need", check_blocks,
     kPools, [](const Node& node) { return !node.block_pools.empty() && is_of_all_pods(node); }},
    {"addresses", Part::kAddresses, "every pod address has one pod and a lease", check_held,
     kPools | kCache,
     [](const Node& node) { return has_attachments(node) || !node.other_pools.empty(); }},
    {"DHCP leases", Part::kDhcp, "every lease of a DHCP server is renewed in time", check_leases,
     kLeases, [](const Node& node) { return !node.leases.empty(); }},
    {"devices", Part::kDevices, "patchbay-agent answers", check_agents, kNetworks | kAgents,
     [](const Node& node) { return !node.device_agents.empty(); }},
    {"subnets", Part::kAddresses, "no two networks share addresses", check_subnets,
     kPools | kRoutes | kCache, has_several_subnets},
    {"routes", Part::kAddresses, "no other route covers a subnet of a network", check_routes,
     kPools | kRoutes},
    {"rules", Part::kAddresses, "no rule keeps the node from its routes to pods", check_rules,
     kCache | kRoutes, [](const Node& node) { return !node.ruled_away.empty(); }},
    {"bridge addresses", Part::kAddresses, "bridges have the gateways of their networks",
     check_bridge_addresses, kPools | kRoutes, has_bridges},
    {"forwarding", Part::kNode, "the links of pods and uplinks forward packets",
     check_link_forwarding, kPools | kCache | kRoutes,
     [](const Node& node) { return node.cluster == nullptr; }},
    {"IPv6", Part::kNode, "IPv6 is enabled where networks use it", check_ipv6, kPools | kRoutes,
     [](const Node& node) { return uses(node, netlink::Family::kIpv6); }},
    {"reverse path", Part::kNode, "the reverse path filter drops no replies", check_reverse_path,
     kRoutes, [](const Node& node) { return uplinks(node, netlink::Family::kIpv4).size() > 1; }},
    {"bridge netfilter", Part::kFirewall, "bridged packets are treated as the networks need it",
     check_bridge_netfilter, kFirewall, has_bridges},
    {"forward policy", Part::kFirewall, "no chain drops forwarded traffic of pods",
     check_forward_policy, kFirewall},
    {"firewalld", Part::kFirewall, "firewalld accepts traffic of pods", check_firewalld, kFirewall,
     has_firewalld},
    {"iptables", Part::kFirewall, "one iptables has all rules", check_backends, kFirewall,
     [](const Node& node) { return node.firewall.has_legacy_rules; }},
    {"NAT exemptions", Part::kFirewall, "no rule exempts pods from NAT without effect",
     check_exemptions, kNetworks | kPools | kFirewall, has_masquerading},
    {"Services", Part::kFirewall, "no hostPort takes the place of a Service", check_services,
     kRoutes | kCache, has_services},
    {"connections", Part::kNode, "the connection tracking table has room", check_conntrack},
    {"uplink", Part::kNode, "the node has a default route, and its link works", check_uplink,
     kPools | kRoutes},
    {"masters", Part::kNode, "the links that pods use on the wire work", check_masters,
     kNetworks | kRoutes, has_masters},
    {"MTU", Part::kNode, "no bridge has a larger MTU than the uplink", check_mtu, kRoutes,
     has_bridges},
    {"clock", Part::kNode, "clock and boot ID are plausible", check_clock},
    {"locks", Part::kNode, "every lock comes free", check_locks, kPods},
    {"disks", Part::kNode, "the state directories are writable", check_disks}};

constexpr Check kPeerChecks[] = {
    {"peer routes", Part::kPeers, "every peer's pods have their route", check_peer_routes, kRoutes},
    {"peer subnets", Part::kPeers, "every node has a subnet of its own", check_peer_subnets,
     kPools},
    {"peer masquerading", Part::kPeers, "pods of peers see the addresses of pods",
     check_peer_masquerade, kNetworks | kPools},
    {"forwarding", Part::kPeers, "the node forwards packets", kubernetes::check_forwarding,
     kPools | kRoutes, [](const Node& node) { return node.cluster == nullptr; }}};

}  // namespace

std::span<const Check> all_checks() { return kChecks; }

std::span<const Check> peer_checks() { return kPeerChecks; }

}  // namespace tool::doctor

#pragma once

#include <span>

#include "cnitool/doctor/finding.h"
#include "cnitool/doctor/node.h"

/// The checks of the doctor. A check is a function from a Node to findings: none where all is well.
/// To add one: the function, its declaration and a row in all_checks().
namespace tool::doctor {

/// Several sources.
struct Sources {
  unsigned bits = 0;
  constexpr Sources() = default;
  constexpr Sources(Source one) : bits(1U << static_cast<unsigned>(one)) {}
  constexpr bool has(Source one) const { return (bits & Sources(one).bits) != 0; }
};
constexpr Sources operator|(Sources all, Source one) {
  all.bits |= Sources(one).bits;
  return all;
}
constexpr Sources operator|(Source a, Source b) { return Sources(a) | b; }

/// The subject of checks, with a line of its own in the summary.
enum class Part {
  kConfigs,
  kPlugins,
  kAttachments,
  kAddresses,
  kDhcp,
  kDevices,
  kFirewall,
  kNode,
  kRuntime,
  kCluster,
  kPeers
};
struct PartInfo {
  Part part;
  const char* name;
  std::string (*looked_at)(const Node&);  ///< "3 networks in /etc/cni/net.d"
};
std::span<const PartInfo> all_parts();  // summary.cc

struct Check {
  const char* name;
  Part part;
  const char* fine;  ///< what is said where nothing was found
  Findings (*run)(const Node&);
  Sources needs = {};  ///< must have been read for it
  /// Whether there is anything to check; null: always. Of nothing it is not said that it is fine.
  bool (*applies)(const Node&) = nullptr;
};
std::span<const Check> all_checks();
/// Those of Node::peers.
std::span<const Check> peer_checks();

// check_config.cc
Findings check_networks(const Node& node);
Findings check_names(const Node& node);
// check_plugins.cc
Findings check_plugins(const Node& node);
Findings check_versions(const Node& node);
Findings check_runtimes(const Node& node);
Findings check_releases(const Node& node);
Findings check_status(const Node& node);
// check_settings.cc
Findings check_ipv6(const Node& node);
Findings check_link_forwarding(const Node& node);
Findings check_reverse_path(const Node& node);
Findings check_bridge_netfilter(const Node& node);
Findings check_conntrack(const Node& node);
Findings check_mtu(const Node& node);
Findings check_clock(const Node& node);
// check_pods.cc
Findings check_pods(const Node& node);
// check_ways_out.cc
Findings check_ways_out(const Node& node);
// check_addresses.cc
Findings check_pools(const Node& node);
Findings check_held(const Node& node);
// check_subnets.cc
Findings check_subnets(const Node& node);
bool has_several_subnets(const Node& node);
// check_routes.cc
Findings check_routes(const Node& node);
// check_bridge_addresses.cc
Findings check_bridge_addresses(const Node& node);
// check_blocks.cc
Findings check_blocks(const Node& node);
// check_leases.cc
Findings check_leases(const Node& node);
// check_forward.cc
Findings check_forward_policy(const Node& node);
Findings check_firewalld(const Node& node);
bool has_firewalld(const Node& node);
// check_uplinks.cc
Findings check_uplink(const Node& node);
Findings check_masters(const Node& node);
bool has_masters(const Node& node);
// places.cc
Findings check_permissions(const Node& node);
Findings check_disks(const Node& node);
// locks.cc
Findings check_locks(const Node& node);
// host_ports.cc
Findings check_host_ports(const Node& node);
// attachments.cc
Findings check_dead(const Node& node);
Findings check_namespaces(const Node& node);
// state_files.cc
Findings check_state_files(const Node& node);
// probed.cc
Findings check_probes(const Node& node);
// leftovers.cc
Findings check_leftovers(const Node& node);
Findings check_links(const Node& node);
// rules.cc
Findings check_rules(const Node& node);
// agents.cc
Findings check_agents(const Node& node);
// firewall.cc
Findings check_backends(const Node& node);
Findings check_exemptions(const Node& node);
bool has_masquerading(const Node& node);
Findings check_services(const Node& node);
bool has_services(const Node& node);
// peers.cc
Findings check_peer_routes(const Node& node);
Findings check_peer_subnets(const Node& node);
Findings check_peer_masquerade(const Node& node);

}  // namespace tool::doctor

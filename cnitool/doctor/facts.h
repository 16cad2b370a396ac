#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cnitool/doctor/finding.h"
#include "cnitool/doctor/node.h"

/// Facts that several checks need.
namespace tool::doctor {

inline constexpr std::uint32_t kMainTable = 254;  // RT_TABLE_MAIN

/// A network whose pods are on a bridge of the node.
struct BridgeNetwork {
  const cni::NetworkList* list = nullptr;
  std::string bridge;  ///< empty: ptp has none
  bool is_gateway = false, masquerades = false, hairpin = false, promiscuous = false;
  bool is_delegate = false;        ///< of flannel
  Names masq_except = {};          ///< `ipMasqExcept`
  std::string masquerade_backend;  ///< "": the node's
  unsigned mtu = 0;                ///< 0: the kernel's
  unsigned vlan = 0;               ///< then the gateway's address is on another link
  bool has_ports = false;          ///< portmap is in the list
  /// The backend of the plugin firewall; "": detected; nothing: it is not in the list.
  std::optional<std::string> firewall = {};
};
std::vector<BridgeNetwork> bridge_networks(const Node& node);
/// These, and those of ptp.
std::vector<BridgeNetwork> routed_networks(const Node& node);

/// Whether the node itself forwards what the pods of the network send: not where they are, as with
/// macvlan, on the wire of an uplink.
bool is_routed(const cni::NetworkList& list);

/// Addresses that a network gives out; of networks that are routed.
struct Subnet {
  std::string network, file;
  cni::AddressRange range;
};
std::vector<Subnet> subnets(const Node& node);
bool overlap(const netlink::Cidr& a, const netlink::Cidr& b);

/// The links by which the network itself routes its subnets.
std::set<int> own_links(const Node& node, const std::string& network);

/// The bridge of the network's pods that has another name by now; null: none.
const netlink::Link* renamed_bridge(const Node& node, const BridgeNetwork& network);

/// Whether a network that is routed, or one of its pods, has addresses of the family.
bool uses(const Node& node, netlink::Family family);
/// The same of one network.
bool uses(const Node& node, netlink::Family family, const std::string& network);

/// Whether the doctor was asked for all pods, or for one that is attached to the network.
bool is_asked_for(const Node& node, const std::string& network);

/// The types of the plugins that a call of this one executes: its own, its delegate's, its IPAM's.
std::set<std::string> types_of(const cni::PluginConf& plugin);
std::set<std::string> types_of(const cni::NetworkList& list);
/// The networks that use a plugin.
Names users_of(const Node& node, std::string_view type);

/// A plugin of these that no call can execute, which check_plugins() reports. Null: none.
const PluginFile* broken_of(const Node& node, const std::set<std::string>& types);

/// Whether calls of the network would wait for a lock, which check_locks() reports.
bool is_locked(const Node& node, const std::string& network);

/// Whether an error is that of a file system which check_disks() reports: read-only, or full.
bool is_of_disk(const Node& node, std::string_view error);
bool is_full(const FileSystem& one);

/// The networks that are routed and use the family.
Names networks_with(const Node& node, netlink::Family family);

/// "hostPort 80/tcp, hostPort 443/tcp": those of pods that live; empty: none.
std::string live_host_ports(const Node& node, const std::string& network);

/// Whether a pod of the network lives.
bool has_pods(const Node& node, const std::string& network);

/// The links with a default route of the family.
std::vector<std::string> uplinks(const Node& node, netlink::Family family);

/// The command that removes what no living pod has, or the setting that allows it.
std::string collect(const Node& node, const std::string& network);
/// The command for a network without a config, with the plugins that have something of it.
std::string collect_with(const std::string& network, const nlohmann::json& plugins);

/// Whether the attachment's DHCP lease is lost, or not renewed: its CHECK fails for that.
bool is_lost(const Node& node, const cni::AttachmentKey& key);

/// "a, b, c and 4 more".
std::string some_of(const std::vector<std::string>& names);

/// A word of a shell's command, in quotes where it needs them.
std::string quoted(const std::string& word);

/// "shop/web-1 (eth0)"; with the beginning of the container's ID if the cache has several
/// containers of that name, "0123456789ab (eth0)" without a name.
std::string name_of(const Node& node, const cni::AttachmentKey& key);

/// "restart the pod shop/web-1", or of all of these.
std::string restart_of(const Node& node, const std::vector<const cni::AttachmentKey*>& pods);
/// Commands without which `cnitool repair` of these pods fails, each with "; " behind; mostly none.
std::string before_repair(const Node& node, const std::vector<const cni::AttachmentKey*>& pods);
/// The option that selects the pod: "--pod shop/web-1", or by its container ID.
std::string option_for(const Node& node, const cni::AttachmentKey& key);

}  // namespace tool::doctor

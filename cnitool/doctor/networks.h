#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cnitool/doctor/finding.h"
#include "cnitool/find_by.h"
#include "cnitool/pool.h"
#include "netlink/route/address.h"
#include "netlink/route/link.h"
#include "netlink/route/route.h"

namespace tool::doctor {

struct Node;

inline constexpr std::uint32_t kMainTable = 254;  // RT_TABLE_MAIN

/// A network whose pods are on a bridge of the node.
struct BridgeNetwork {
  const cni::NetworkList* list = nullptr;
  std::string plugin;  ///< its type
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

/// The networks that are routed and use the family.
Names networks_with(const Node& node, netlink::Family family);

/// The link of the default route that counts, that of IPv4 before that of IPv6; empty: none.
std::string default_link(const Node& node);  // check_uplinks.cc

/// The links with a default route of the family.
std::vector<std::string> uplinks(const Node& node, netlink::Family family);

}  // namespace tool::doctor

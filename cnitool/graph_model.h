#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cnitool/find_by.h"
#include "cnitool/leases.h"
#include "libcni/runtime/cache.h"
#include "netlink/route/socket.h"

/// The node's networks as data for a drawing. An empty text: unknown.
namespace tool {

/// The kernel's lists for the node, each read once.
struct KernelState {
  std::vector<netlink::Link> links;
  std::vector<netlink::LinkAddress> addresses;
  std::vector<netlink::LinkRoute> routes;  ///< both families

  const netlink::Link* find(const std::string& name) const {
    return find_by(links, &netlink::Link::name, name);
  }
  const netlink::Link* find(int index) const {
    return find_by(links, &netlink::Link::index, index);
  }
  /// The addresses of a link, as "10.1.2.1/24", without link-local ones.
  std::vector<std::string> addresses_of(int index) const;

  static KernelState read();
};

/// A further interface of an attachment, as of the plugin devices.
struct GraphInterface {
  std::string name = {}, mac = {};
  std::string kind = {};  ///< "macvlan on eth1"; empty: of no kind, as hardware, or unknown
  std::vector<std::string> addresses = {};
};

/// One attachment of the cache.
struct GraphPod {
  std::string network = {}, container_id = {}, ifname = {}, netns = {};
  std::string name = {};      ///< of the Kubernetes pod: "default/web-1"
  std::string state = {};     ///< "alive", "no namespace", "no interface", "unknown", "unfinished"
  std::string mac = {};       ///< of the interface
  std::string host_end = {};  ///< the other end of its veth, where the node has it
  std::string bridge = {};    ///< whose port that is; empty: of none
  std::string type = {};      ///< of the plugin that made the interface
  std::string master = {};    ///< what the interface stands on: "eth0", "eth1 in the pod"
  std::string port_of = {};   ///< the bridge in the pod that the interface is a port of
  std::string vrf = {};       ///< the VRF in the pod that the interface is in: "blue, table 1"
  std::vector<std::string> addresses = {};
  std::vector<GraphInterface> further = {};
  std::vector<std::string> host_ports = {};  ///< "8080 -> 80/tcp"
  std::string limits = {};                   ///< "in 8 Mbit/s, out 4 Mbit/s"
  bool masqueraded = false;
  std::string policy = {};  ///< ingressPolicy of the plugin firewall; empty: it is not in the list
  std::optional<DhcpLease> lease = {};  ///< of the daemon of dhcp
  std::string broken = {};      ///< what takes packets on its own way; empty: nothing is known
  std::string broken_out = {};  ///< the same on the way from its network to others
  bool is_alive() const { return state == "alive"; }
  /// The pod's name, else the container's, of which twelve digits tell it from others where it is
  /// that long.
  std::string label() const;
};

/// A port of one of the bridges that the cache does not know.
struct ForeignPort {
  std::string name, kind, mac;
};

struct GraphBridge {
  std::string name = {}, mac = {};
  bool is_there = false;  ///< else the cache has it, and the node not (any more)
  bool is_up = false;
  unsigned mtu = 0;
  std::vector<std::string> addresses = {};
  std::vector<std::string> networks = {};  ///< whose pods are on it
  bool masquerades = false;
  std::vector<GraphPod> pods = {};
  std::vector<ForeignPort> foreign = {};
};

/// A link of the node that a default route leads through.
struct Uplink {
  std::string name, mac;
  std::vector<std::string> addresses, gateways;
};

/// A network with cluster-pool: the blocks of this node.
struct GraphPool {
  struct Block {
    std::string cidr, state;
    std::uint64_t used = 0, size = 0;  ///< addresses
  };
  std::string network = {};
  std::vector<Block> blocks = {};
  struct Set {
    std::vector<std::string> subnets;
    std::uint64_t claimed = 0, total = 0;  ///< blocks of the cluster
  };
  std::vector<Set> sets = {};
  std::uint64_t claimed = 0, total = 0;  ///< of all sets
  std::vector<std::string> lines = {};   ///< of the sets
};

struct Graph {
  std::vector<Uplink> uplinks;
  std::vector<GraphBridge> bridges;
  std::vector<GraphPod> others;  ///< attachments without a bridge
  std::vector<GraphPool> pools = {};
};

/// The properties of an attachment that the cache does not have.
struct Seen {
  std::string state;         ///< see cni::liveness_of()
  std::string master = {};   ///< of a link in the pod that the kernel shows one of, as in GraphPod
  std::string port_of = {};  ///< likewise
  std::string vrf = {};      ///< likewise
  std::optional<DhcpLease> lease = {};
  /// GraphInterface::kind of the interfaces of the result, by name.
  std::map<std::string, std::string> kinds = {};
};
using Look = Seen (*)(const cni::CachedAttachment&);

/// Bridges by name, pods by network and container.
Graph graph_of(const std::vector<cni::CachedAttachment>& attachments, const KernelState& kernel,
               Look look);

/// Removes other pods, and what none of these containers is on.
void keep_only(const std::set<std::string>& containers, Graph& graph);

nlohmann::ordered_json json_of(const Graph& graph);

}  // namespace tool

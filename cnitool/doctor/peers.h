#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/route/route.h"
#include "netlink/types/ip.h"

namespace tool::doctor {

/// A subnet of pods on another node, and how this node reaches it.
struct PeerSubnet {
  netlink::Cidr subnet;
  std::optional<netlink::Ip> node = {};  ///< the address of that node, of the same family
  /// The kernel's routes to the node and to the first address of the subnet; empty: none.
  std::optional<netlink::MatchedRoute> to_node = {}, to_pods = {};
};

/// Another node of the cluster, or this one.
struct Peer {
  std::string name;
  std::vector<PeerSubnet> subnets;
  bool is_this() const;
};

/// The Nodes of a file that have podCIDRs, "-" is stdin, with the kernel's answers.
/// \throws cni::Error, netlink::Error.
std::vector<Peer> look_at_peers(const std::string& file);

}  // namespace tool::doctor

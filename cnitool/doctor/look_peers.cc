#include <algorithm>

#include "cnitool/doctor/peers.h"
#include "cnitool/node_object.h"
#include "libcni/common/error.h"
#include "netlink/route/socket.h"

namespace tool::doctor {

namespace {

Peer peer_of(const NodeObject& object, netlink::RouteSocket& socket) {
  Peer out{.name = object.name, .subnets = {}};
  for (const netlink::Cidr& one : object.pod_cidrs) {
    const auto node = std::ranges::find(object.addresses, one.ip.family(), &netlink::Ip::family);
    PeerSubnet subnet{.subnet = one.network()};
    subnet.to_pods = socket.match(subnet.subnet.ip.next().value_or(subnet.subnet.ip));
    if (node != object.addresses.end()) {
      subnet.node = *node;
      subnet.to_node = socket.match(*node);
    }
    out.subnets.push_back(std::move(subnet));
  }
  return out;
}

}  // namespace

bool Peer::is_this() const {
  return std::ranges::any_of(
      subnets, [](const PeerSubnet& one) { return one.to_node && one.to_node->local; });
}

std::vector<Peer> look_at_peers(const std::string& file) {
  const std::string source = source_of(file);
  netlink::RouteSocket socket;
  std::vector<Peer> out;
  for (const NodeObject& object : node_objects(input_from(file), source)) {
    if (!object.pod_cidrs.empty()) out.push_back(peer_of(object, socket));
  }
  if (!out.empty()) return out;
  throw cni::Error(cni::Code::kInvalidConfig, cni::cat(source, ": no Node has spec.podCIDRs"),
                   "another program gives out the subnets of pods, and knows the routes");
}

}  // namespace tool::doctor

#pragma once

#include <cstddef>
#include <vector>

#include "cnitool/probe/question.h"
#include "netlink/netns.h"
#include "netlink/route/neighbour.h"
#include "netlink/route/socket.h"

/// Spares large bridges broadcasts. Who is asked for a MAC address by one is asked in vain by all
/// other pods of the bridge: what probes cost would grow with the square of the pods.
namespace tool::probe {

/// Pods of a bridge that find whom they ask as any host does: by a broadcast.
inline constexpr std::size_t kMostBroadcasting = 32;

/// Which of them are behind the first of their bridges.
std::vector<bool> behind_first(const std::vector<Subject>& subjects);

/// Somebody whom a place is about to ask, or to answer.
struct Introduction {
  std::size_t place = 0;  ///< an index
  netlink::Neighbour who;
};

/// A pod, and where it is asked from.
struct Guest {
  const Subject& pod;
  std::size_t place = 0;
  netlink::Link bridge = {};  ///< of the pod; without an index: there is none
};
/// Whether its port of the bridge sends it broadcasts, and what else the bridge has to flood: else
/// nobody may be introduced to it or by it, because others do not find it.
bool hears_broadcasts(const Guest& guest, netlink::RouteSocket& node);
/// Of a pod to the node, by its gateways, and of the node to the pod.
std::vector<Introduction> introductions_to_node(const Guest& guest, const NodeFacts& facts);
/// Of two pods of one bridge to each other, if the target is an address of the second that the
/// first reaches without a gateway.
std::vector<Introduction> introductions_of(const Guest& sender, const Guest& subject,
                                           const Ip& target);

/// Makes entries of neighbours, which the kernels there confirm, each by a packet to that one host.
/// Those that are there already stay. One that is not confirmed at once is removed again, and is
/// looked for by a broadcast when a packet is sent. \throws netlink::Error.
void introduce(const std::vector<Introduction>& all, const std::vector<netlink::NetNs>& places);

}  // namespace tool::probe

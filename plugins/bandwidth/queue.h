#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/route/socket.h"
#include "netlink/tc/filter.h"
#include "plugins/bandwidth/shape.h"

namespace bandwidth {

/// Seen from the pod.
enum class Direction { kIngress, kEgress };

/// What the root queue of a link is to be: a token bucket (TBF), or where the limit is not for all
/// networks a tree (HTB) of two classes, one of them with the limit.
struct Plan {
  Shape shape;
  std::optional<Shape> reference = {};  ///< for CHECK: what the reference makes of the same config
  std::optional<Queue> queue = {};
  netlink::tc::FqCodel fair = {};
  Subnets subnets = {};
  netlink::tc::End remote = netlink::tc::End::kDestination;  ///< who is in the subnets
};

/// For a direction that the config limits.
Plan plan_for(const Conf& conf, Direction direction, unsigned mtu, const netlink::tc::Ticks& ticks);

/// Makes the plan the root queue of a link. A limit that is there is changed without losing a
/// packet, a bucket that was a tree before is put in its place.
/// False where the packets wait in a plain queue because the kernel lacks fq_codel.
/// \throws cni::Error where the root queue is somebody else's, or where the kernel lacks fq_codel
/// and the config insists on it.
bool put(netlink::RouteSocket& socket, const netlink::Link& link, const Plan& plan);

/// Removes what put() made; anything else stays.
void remove_queue(netlink::RouteSocket& socket, const netlink::Link& link);

/// The first difference to the plan, or nothing.
std::optional<std::string> missing(netlink::RouteSocket& socket, const netlink::Link& link,
                                   const Plan& plan);

}  // namespace bandwidth

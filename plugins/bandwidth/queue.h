#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/route/socket.h"
#include "netlink/tc/filter.h"
#include "plugins/bandwidth/shape.h"

namespace bandwidth {

/// The direction of traffic from the pod's view.
enum class Direction { kIngress, kEgress };

/// The wanted root qdisc of a link: a token bucket (TBF), or with subnets an HTB qdisc of two
/// classes, one of them with the limit.
struct Plan {
  Shape shape;
  std::optional<Shape> reference = {};  ///< for CHECK: the reference plugin's for the same config
  std::optional<Queue> queue = {};
  netlink::tc::FqCodel fair = {};
  Subnets subnets = {};
  netlink::tc::End remote = netlink::tc::End::kDestination;  ///< which address the subnets match
};

/// For a direction that the config limits.
Plan plan_for(const Conf& conf, Direction direction, unsigned mtu, const netlink::tc::Ticks& ticks);

/// Sets the plan as root qdisc of a link. An existing limit is changed without losing a packet; a
/// change between TBF and HTB replaces the qdisc.
/// False if packets are queued in a plain FIFO because the kernel lacks fq_codel.
/// \throws cni::Error if the root qdisc belongs to another program, or if the kernel lacks fq_codel
/// and the config requires it.
bool put(netlink::RouteSocket& socket, const netlink::Link& link, const Plan& plan);

/// Removes what put() set; all else stays.
void remove_queue(netlink::RouteSocket& socket, const netlink::Link& link);

/// The first difference to the plan, or nothing.
std::optional<std::string> missing(netlink::RouteSocket& socket, const netlink::Link& link,
                                   const Plan& plan);

}  // namespace bandwidth

#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "cnitool/doctor/networks.h"
#include "cnitool/doctor/node.h"
#include "netlink/route/route.h"

/// Routes of the node that other programs made.
namespace tool::doctor {

/// A route that is not the network's, with all of its next hops.
struct Foreign {
  std::vector<const netlink::LinkRoute*> hops;
  std::size_t place = 0;  ///< in the kernel's order, in which the first of two equal ones counts
  const netlink::LinkRoute& route() const { return *hops.front(); }
};

/// Those of the main table that do not lead by the links `own` alone. check_routes.cc
std::vector<Foreign> foreign_routes(const Node& node, const std::set<int>& own);

/// "ip route del 10.22.0.0/25 via 192.0.2.1 dev eth0 proto static metric 100".
std::string removal_of(const Node& node, const Foreign& foreign);

/// How the network gets another subnet, with what its bridge and living pods need. \param key of
/// its IPAM plugin.
std::string other_subnet(const Node& node, const Subnet& subnet, const std::string& key = "subnet");

}  // namespace tool::doctor

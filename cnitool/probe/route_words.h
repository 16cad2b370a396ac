#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "cnitool/probe/scene.h"

/// What is said of routes and rules of the routing policy.
namespace tool::probe {

/// As ip-route(8) has it; where: null is the node.
std::string text_of(const netlink::LinkRoute& route, Scene& scene, const Subject* where);
/// What `ip route del` takes: the hops of a nexthop object are not the route's own.
std::string name_of_route(const netlink::LinkRoute& route, Scene& scene, const Subject* where);
/// The command that sets a metric, RTAX_*, of a route that keeps all else. ip-route(8) takes from a
/// route what the command does not name. Of one that has more than is known here, what shows it.
std::string change_of(const netlink::LinkRoute& route, std::pair<unsigned, std::uint32_t> metric,
                      Scene& scene, const Subject* where);
/// "ip OBJECT ", or "ip -6 OBJECT ", by the family of an address.
std::string command(const netlink::Ip& ip, const char* object);
/// "Calico's", by the protocol that it was made by.
std::string whose_route(const netlink::LinkRoute& route);
/// "rule of priority 50 (from 10.1.2.0/28 lookup 77)".
std::string text_of(const netlink::PolicyStep& rule);

}  // namespace tool::probe

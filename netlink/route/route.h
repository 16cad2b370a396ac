#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "netlink/route/link.h"
#include "netlink/route/request.h"
#include "netlink/types/ip.h"

namespace netlink {

/// One of the ways of a multipath route.
struct NextHop {
  int link = 0;
  std::optional<Ip> gateway = {};
  unsigned weight = 1;
  bool on_link = false;
};

/// A unicast route through a link, to add or as the kernel showed it.
struct LinkRoute {
  Cidr dst;
  std::optional<Ip> gateway = {};
  int link = 0;
  std::uint32_t table = 254;   ///< RT_TABLE_MAIN
  std::uint32_t priority = 0;  ///< the metric; 0 lets the kernel choose
  std::uint8_t scope = 0;      ///< RT_SCOPE_UNIVERSE
  unsigned mtu = 0, advmss = 0;
  std::uint8_t protocol = 3;      ///< who made it: RTPROT_BOOT
  std::optional<Ip> source = {};  ///< of packets that choose none (RTA_PREFSRC)
  /// The gateway is on the link though no other route leads there (RTNH_F_ONLINK).
  bool on_link = false;
  /// To add: EEXIST where any link has a route to dst with that table and metric (NLM_F_EXCL).
  bool exclusive = false;
  std::vector<NextHop> multipath = {};  ///< as the kernel showed it, where there are several
  std::uint8_t type = 1;                ///< RTN_UNICAST; as the kernel showed it
  std::uint32_t nexthop = 0;            ///< the ID of the nexthop object that it uses, likewise
  unsigned hop_limit = 0;  ///< of packets whose sender says none (RTAX_HOPLIMIT), likewise
  std::map<unsigned, std::uint32_t> metrics = {};  ///< all by RTAX_*, likewise
  std::uint8_t tos = 0;                            ///< of the packets that it is for, likewise
  std::optional<std::uint8_t> preference = {};     ///< ICMPV6_ROUTER_PREF_*, likewise
  bool has_more = false;  ///< an encapsulation, or what else is in none of the members, likewise
};
/// "blackhole", "unreachable", "prohibit"; empty: a route of another type.
std::string refusal_of(const LinkRoute& route);
LinkRoute decode_route(const Reply& reply);
/// A multipath route as one for each of its next hops; any other as it is.
std::vector<LinkRoute> each_hop(const LinkRoute& route);

/// A route as the kernel showed it, with all it has, to be made again or in another table.
struct RouteCopy {
  LinkRoute route;
  Bytes payload;         ///< rtmsg and attributes
  bool is_part = false;  ///< next hops of a multipath route that has others
  Bytes whole = {};  ///< of a part: that route's payload, where the kernel changes it as a whole
};
RouteCopy copy_route(const Reply& reply);
/// The same, but a multipath route of IPv6 as a part for each next hop: the kernel adds and removes
/// these one by one (ip6_route_multipath_add() in net/ipv6/route.c).
std::vector<RouteCopy> copy_hops(const Reply& reply);
/// The route as far as it leads by the link: some of its next hops, all, or nothing.
std::optional<RouteCopy> part_by(const RouteCopy& copy, const Link& link);

/// Creates it with all it had but its age, in a table. A twin is tolerated. Of a part, IPv6 next
/// hops join a route of that destination and metric.
RouteRequest add(const RouteCopy& copy, std::uint32_t table);
/// One that is gone already is tolerated. The next hops that a part lacks stay.
std::vector<RouteRequest> remove(const RouteCopy& copy);
/// The reverse of remove().
std::vector<RouteRequest> restore(const RouteCopy& copy);

/// Create; the flags and protocol (boot) are those of the reference. EEXIST for a twin.
RouteRequest add(const Link& link, const LinkRoute& route);

/// The route that the node's own packets take to one address.
struct Path {
  int link = 0;        ///< lo for the node's own addresses
  bool local = false;  ///< the address is the node's own (RTN_LOCAL)
};
/// Asks for it. Answers of the kernel that there is no way are tolerated.
RouteRequest path_query(const Ip& destination);
/// Empty: the route leads nowhere (blackhole, unreachable, prohibit).
std::optional<Path> decode_path(const Reply& reply);

/// The route of a routing table that decides about one address.
struct MatchedRoute {
  LinkRoute route;     ///< with the destination that it has in its table
  bool local = false;  ///< the address is the node's own
};
/// As path_query(), but for the route as its table has it (RTM_F_FIB_MATCH, since Linux 4.13).
RouteRequest match_query(const Ip& destination);
/// What of a packet a routing decision looks at.
struct PacketPath {
  Ip destination;
  std::optional<Ip> source = {};
  int in = 0;  ///< index of the link by which it came; 0: the node's own packet
  std::uint32_t mark = 0;
};
/// The same for one packet; the answer has the table, which it otherwise leaves out.
RouteRequest match_query(const PacketPath& packet);
/// Empty: the route leads nowhere.
std::optional<MatchedRoute> decode_match(const Reply& reply);

}  // namespace netlink

#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "netlink/channel.h"
#include "netlink/netns.h"
#include "netlink/route/address.h"
#include "netlink/route/bridge_vlan.h"
#include "netlink/route/link.h"
#include "netlink/route/policy_rule.h"
#include "netlink/route/request.h"
#include "netlink/route/route.h"
#include "netlink/types/error.h"

namespace netlink {

/// A NETLINK_ROUTE socket, in one namespace for life. Everything throws netlink::Error.
class RouteSocket {
 public:
  /// In the namespace of the thread, or in another one, which is entered for the moment of opening.
  RouteSocket();
  explicit RouteSocket(const NetNs& where);

  std::optional<Link> find(std::string_view name);  ///< absent is an answer
  std::optional<Link> find(int index);              ///< none has index 0
  Link get(std::string_view name);                  ///< absent is ENODEV

  /// Whether the kernel can make links of a kind ("veth"); loads the module where there is one.
  bool knows_kind(std::string_view kind);

  /// The addresses of one link; the kernel filters.
  std::vector<LinkAddress> addresses(const Link& link, std::optional<Family> family = {});
  /// The addresses of all links.
  std::vector<LinkAddress> addresses();
  /// The number of a namespace among those that this socket's namespace knows (RTM_GETNSID,
  /// net/core/net_namespace.c), as in Link::peer_nsid; nothing where it has none yet. It gets one
  /// when a link is shown whose other end is there: ask after that.
  std::optional<int> nsid(const NetNs& ns);
  /// Whether the namespace of that number exists. A link still shows the number while the kernel
  /// takes the namespace apart, and the link with it. True where that cannot be told.
  bool has_namespace(int nsid);
  /// The number; gives the namespace one where it has none (RTM_NEWNSID).
  int ensure_nsid(const NetNs& ns);
  /// The number of this socket's namespace, which no other gets before the next boot
  /// (SO_NETNS_COOKIE, since Linux 5.14); 0 where the kernel does not say.
  std::uint64_t cookie() const noexcept;
  /// The unicast routes of all tables, a multipath route as one for each next hop; for CHECK.
  std::vector<LinkRoute> routes(Family family);
  /// The routes of all tables that refuse packets: see refusal_of().
  std::vector<LinkRoute> refusals(Family family);
  /// The routes of all tables and types, a multipath route as one.
  std::vector<LinkRoute> all_routes(Family family);
  /// The same as routes() with all that each has, to be copied; copy_hops() says which are parts.
  std::vector<RouteCopy> route_copies(Family family);
  /// The tables that have a route of whatever type; repeated for each.
  std::vector<std::uint32_t> route_tables(Family family);
  /// The rules of the routing policy.
  std::vector<PolicyRule> policy_rules(Family family);
  /// Whether packets of others are forwarded at all (net.ipv4.ip_forward,
  /// net.ipv6.conf.all.forwarding); nothing where the kernel cannot tell, as without that family.
  std::optional<bool> forwards(Family family);
  /// The route of the node's own packets to that address; empty: there is none. The link is 0 if
  /// there are several.
  std::optional<Path> path_to(const Ip& destination);
  /// The route of a table that decides about packets to that address; empty: there is none.
  std::optional<MatchedRoute> match(const Ip& destination) {
    return match(PacketPath{destination});
  }
  std::optional<MatchedRoute> match(const PacketPath& packet);
  /// All links of a kind ("veth"); for GC.
  std::vector<Link> links_of_kind(std::string_view kind);
  /// All links.
  std::vector<Link> links();
  /// The VLANs of one bridge port.
  std::vector<PortVlan> vlans(const Link& port);

  /// Sends all requests, up to 64 in one system call; the kernel works through them in order and
  /// does not stop at a failure. \throws Error of the first that failed with an errno it does not
  /// tolerate.
  void send(std::vector<RouteRequest> requests);
  /// The same for one request.
  void send(RouteRequest request);
  /// Sends one request whose refusal is an answer like any other: the Error that send() would
  /// throw. \throws Error where there was no answer.
  std::optional<Error> attempt(RouteRequest request);

  /// Waits until test() is true, which is asked now and after every change that the kernel
  /// announces of links and addresses here. False when the time is up.
  bool wait_until(const std::function<bool()>& test, std::chrono::milliseconds limit);

  /// The parts of the queries here, for those of other layers.
  using Handler = std::function<void(const Reply&)>;
  /// One request, one answer: hands it over, or tolerates that there is none.
  void ask(RouteRequest request, const Handler& handler);
  /// Hands over every answer to the message, to which it adds NLM_F_DUMP; all of one state.
  void dump(const char* operation, Message message, const Handler& handler);

 private:
  /// The routes of all tables and types.
  void for_each_route(Family family, const Handler& handler);
  void transmit(std::vector<RouteRequest>& requests);
  /// Receives until the last of the sequence numbers was answered. The first error that its request
  /// does not tolerate.
  std::optional<Error> collect(const std::vector<RouteRequest>& requests, std::uint32_t first);
  std::optional<Error> try_send(std::vector<RouteRequest>& requests);
  /// A dump of links. A process that makes and removes links without end cannot make it fail: each
  /// message is a whole link, and a link that one dump missed is in another.
  std::vector<Link> dump_links(Message message);
  /// The next datagram; nothing where it was too large, as that of a link to which a pod gave
  /// hundreds of alternative names: ask again.
  std::optional<View> receive_whole(const std::string& operation);
  bool dump_once(const char* operation, Message& message, const Handler& handler);
  std::optional<Link> find(RouteRequest request);
  /// One message alone, under the next sequence number, which it returns.
  std::uint32_t transmit(Message& message, const std::string& operation);

  static constexpr int kMaxDumps = 5;  ///< until one is of one state

  NetNs ns_;
  Channel channel_;
  std::uint32_t sequence_ = 1;
};

}  // namespace netlink

#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cnitool/probe/question.h"
#include "netlink/netns.h"
#include "netlink/route/link.h"
#include "netlink/route/neighbour.h"
#include "netlink/route/route.h"
#include "netlink/route/routing_policy.h"
#include "netlink/route/socket.h"

/// The state of the node and of pods in which the reason for a failure is looked for: each is read
/// once, when it is first asked for.
namespace tool::probe {

/// The links between a pod and the node.
struct Wire {
  std::optional<netlink::Link> inner;  ///< in the pod; empty: it does not exist
  std::optional<netlink::Link> outer;  ///< its host veth; empty: none, or it does not exist
  std::optional<netlink::Link>
      bridge;  ///< that its config names; empty: none, or it does not exist
  /// By which the node reaches the pod: the bridge or the host veth. Null: neither exists.
  const netlink::Link* way() const { return bridge ? &*bridge : outer ? &*outer : nullptr; }
};

/// How long an answer of ARP may take, which a host that has it of another delays (proxy_delay, of
/// which the default is 0.8 s).
inline constexpr std::chrono::milliseconds kArpPatience{1'000};
using ArpClock = std::chrono::steady_clock;
/// What a namespace believes of an address on a link: where it asks still (NUD_INCOMPLETE), by that
/// time at the latest. Empty: no MAC address. \throws netlink::Error.
std::optional<netlink::Neighbour> resolved_by(ArpClock::time_point end,
                                              netlink::RouteSocket& socket, int link, const Ip& ip);

/// A pod is a subject, and the node is null. Made right after packets were sent.
class Scene {
 public:
  explicit Scene(const NodeFacts& facts) : facts_(facts) {}
  const NodeFacts& facts() const { return facts_; }

  /// \throws netlink::Error where the pod is gone.
  netlink::RouteSocket& at(const Subject* where);
  const Wire& wire_of(const Subject& pod);
  const std::vector<netlink::PolicyStep>& policy(const Subject* where, netlink::Family family);
  const std::vector<netlink::LinkRoute>& routes(const Subject* where, netlink::Family family);
  /// Empty: the key does not exist.
  std::optional<std::string> sysctl(const Subject* where, const std::string& key);
  /// The larger of the values for the link and for all, as the kernel takes some of
  /// net/ipv4/conf; 0 where there is none.
  int greater(const Subject* where, const std::string& link, const std::string& key);
  /// kArpPatience after the scene was made.
  ArpClock::time_point arp_end() const { return end_; }
  /// As resolved_by(), by then.
  std::optional<netlink::Neighbour> resolved(const Subject* where, int link, const Ip& ip);
  /// Runs a program there. \return what it prints; empty where it is not installed, and where that
  /// is too much or takes too long.
  std::string output_of(const Subject* where, const char* program,
                        const std::vector<std::string>& arguments);

 private:
  using Key = std::pair<const Subject*, netlink::Family>;
  netlink::NetNs place_of(const Subject* where) const;

  const NodeFacts& facts_;
  ArpClock::time_point end_ = ArpClock::now() + kArpPatience;
  std::map<const Subject*, netlink::RouteSocket> sockets_;
  std::map<const Subject*, Wire> wires_;
  std::map<Key, std::vector<netlink::PolicyStep>> policies_;
  std::map<Key, std::vector<netlink::LinkRoute>> routes_;
  std::map<std::pair<const Subject*, std::vector<std::string>>, std::string> outputs_;
};

/// The address of the pod's own interface; empty: it has none of the family.
std::optional<Ip> address_of(const Subject& one, netlink::Family family);
/// The subnet of a pod's address; of one address where the pod has none.
netlink::Cidr subnet_of(const Subject& one, netlink::Family family);
/// "the node", "the pod 'shop/web-1 (eth0)'".
std::string name_of(const Subject* where);
/// "", "in the pod 'shop/web-1 (eth0)': ": begins what is said of a place.
std::string prefix_of(const Subject* where);
/// The command as it is typed on the node.
std::string command_in(const Subject* where, const std::string& command);

/// The remedy for what is wrong in a pod's namespace, which a person carries out.
std::string restart_of(const Subject& pod);

}  // namespace tool::probe

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/route/route.h"
#include "netlink/route/socket.h"

/// How the rules of the routing policy lead to the route of a packet (ip-rule(8),
/// fib_rules_lookup() in net/core/fib_rules.c), to say which of them decided. What the kernel does
/// is its own answer.
namespace netlink {

/// A rule of the policy, with all that it selects by.
struct PolicyStep {
  enum class Action : std::uint8_t { kTable, kGoto, kNop, kBlackhole, kUnreachable, kProhibit };
  Action action = Action::kTable;
  std::uint32_t priority = 0;
  std::uint32_t table = 0;   ///< of kTable
  std::uint32_t target = 0;  ///< of kGoto
  std::optional<Cidr> from = {}, to = {};
  std::string in = {}, out = {};  ///< names of links
  std::uint32_t mark = 0, mask = 0;
  std::optional<std::pair<std::uint32_t, std::uint32_t>> users = {};
  std::uint8_t protocol = 0;  ///< IPPROTO_*
  using Ports = std::pair<std::uint16_t, std::uint16_t>;
  std::optional<Ports> source_ports = {}, ports = {};  ///< first and last; ports: of the target
  int suppress_prefix = -1;  ///< routes with prefixes up to this one do not count
  bool is_inverted = false;
  bool is_partly_known = false;  ///< it selects by what is not here, as "tos"

  /// As ip-rule(8) has it, without the priority: "from 10.1.0.0/16 iif cni0 lookup 77".
  std::string str() const;
};
/// Reads an RTM_NEWRULE.
PolicyStep decode_policy_step(const Reply& reply);
/// All of a family, in their order. \throws Error.
std::vector<PolicyStep> policy_of(RouteSocket& socket, Family family);

/// A packet as the policy sees it.
struct RoutedPacket {
  PacketPath path;
  std::string in = {};  ///< the name of the link by which it came; empty: it is the own one
  std::uint8_t protocol = 0;
  std::uint16_t source_port = 0, port = 0;  ///< 0: it has none, or it is not known
};

/// What decides about a packet.
struct Decision {
  std::optional<PolicyStep> rule = {};   ///< empty: none matched, or all that did have no route
  std::optional<LinkRoute> route = {};   ///< of the rule's table; empty: the rule itself decides
  std::optional<LinkRoute> thrown = {};  ///< a route "throw" that sent it on to the next rule
  std::optional<PolicyStep> jump = {};   ///< the first rule "goto" that it took
  /// The first rule that has a route, and does not take it because its prefix is too short.
  std::optional<PolicyStep> suppressor = {};
};
/// Of the policy and all routes of the packet's family. A rule that is partly known is taken for
/// one that does not match.
Decision decide(const std::vector<PolicyStep>& policy, const std::vector<LinkRoute>& routes,
                const RoutedPacket& packet);

}  // namespace netlink

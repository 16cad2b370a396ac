#include "cnitool/probe/cause.h"

#include <algorithm>
#include <span>
#include <system_error>

#include "cnitool/probe/causes.h"
#include "cnitool/probe/drop_cause.h"
#include "libcni/common/error.h"

namespace tool::probe {

namespace {

using cni::cat;

// Who answers for no MAC address may have been asked by packets that were dropped. Of a rule the
// kernel does not say which one: of iptables-legacy its counter does.
std::optional<Cause> dropped_by_kernel(const Look& look) {
  if (was_dropped_by_rule(look.one.trail)) {
    if (auto cause = dropped_by_legacy(look)) return cause;
  }
  return cause_of_drops(look.one, Evidence::kCertain);
}

/// What may have taken a packet that was last seen between two spots, both included.
struct Gap {
  Spot first, last;
  Reason reason;
};

// In the order of a packet's way. What lies behind a place where it was seen is not to blame.
constexpr Gap kGaps[] = {{Spot::kNowhere, Spot::kNowhere, not_answered},
                         {Spot::kNowhere, Spot::kOnLink, no_ipv6},
                         {Spot::kNowhere, Spot::kOnBridge, broken_wire_from},
                         {Spot::kNowhere, Spot::kOnLink, broken_wire_to},
                         {Spot::kNowhere, Spot::kTaken, address_is_nodes},
                         {Spot::kNowhere, Spot::kNowhere, no_address_there},
                         {Spot::kNowhere, Spot::kRouted, no_loopback},
                         {Spot::kNowhere, Spot::kNowhere, no_way_from},
                         {Spot::kSent, Spot::kSent, dropped_by_legacy},
                         {Spot::kLeft, Spot::kOnBridge, wrong_neighbour},
                         {Spot::kLeft, Spot::kBridged, unresolved_by_rule},
                         {Spot::kLeft, Spot::kOnBridge, no_way_from},
                         {Spot::kLeft, Spot::kOnBridge, kept_by_bridge},
                         {Spot::kLeft, Spot::kOnBridge, no_address_there},
                         {Spot::kLeft, Spot::kOnBridge, gateway_is_not_taken},
                         {Spot::kLeft, Spot::kOnBridge, unresolved},
                         {Spot::kAtIp, Spot::kAtIp, no_way_on_node},
                         {Spot::kAtIp, Spot::kAtIp, not_forwarded},
                         {Spot::kAtIp, Spot::kAtIp, no_way_back_on_node},
                         {Spot::kAtIp, Spot::kAtIp, filtered_by_source},
                         {Spot::kAtIp, Spot::kAtIp, kept_by_bridge},
                         {Spot::kAtIp, Spot::kRouted, conntrack_is_full},
                         {Spot::kRouted, Spot::kOnLink, no_way_on_node},
                         {Spot::kRouted, Spot::kOnLink, no_way_from},
                         {Spot::kAtIp, Spot::kLeavesNode, dropped_by_legacy},
                         {Spot::kLeavesNode, Spot::kOnLink, broken_uplink},
                         {Spot::kLeavesNode, Spot::kAtReceiver, wrong_neighbour},
                         {Spot::kLeavesNode, Spot::kAtReceiver, no_address_there},
                         {Spot::kLeavesNode, Spot::kOnLink, kept_by_bridge},
                         {Spot::kLeavesNode, Spot::kOnLink, dropped_by_kernel},
                         {Spot::kLeavesNode, Spot::kOnLink, unresolved},
                         {Spot::kLeavesNode, Spot::kOnLink, gateway_is_away},
                         {Spot::kAtReceiverIp, Spot::kAtReceiverIp, no_address_there},
                         {Spot::kAtReceiverIp, Spot::kAtReceiverIp, no_way_there},
                         {Spot::kAtReceiverIp, Spot::kAtReceiverIp, filtered_by_source_there},
                         {Spot::kAtReceiverIp, Spot::kRoutedThere, dropped_by_legacy}};

// Where nothing in between is to blame: state that is wrong in any case.
constexpr Reason kAnywhere[] = {broken_wire_from,    broken_wire_to,     no_ipv6,
                                wrong_neighbour,     no_way_on_node,     no_way_back_on_node,
                                no_way_from,         not_forwarded,      dropped_by_legacy,
                                untracked_by_rule,   rewritten_by_rule,  unresolved_by_rule,
                                untracked_by_legacy, rewritten_by_legacy};

// What may have taken it where the kernel does not say why it was dropped.
constexpr Gap kUnseen[] = {{Spot::kLeft, Spot::kOnBridge, queued_from},
                           {Spot::kLeft, Spot::kOnLink, queued_to},
                           {Spot::kLeavesNode, Spot::kOnLink, queued_at_uplink},
                           {Spot::kAtReceiver, Spot::kAtReceiver, queued_to},
                           {Spot::kLeft, Spot::kOnLink, queued_back},
                           {Spot::kTaken, Spot::kTaken, kept_by_own_cgroup}};

std::optional<Cause> refused(const Look& look) {
  const Case& one = look.one;
  const NodeFacts& facts = look.scene.facts();
  if (one.answer.kind == Answer::Kind::kNotSent) {
    const std::string reason = std::generic_category().message(one.answer.error);
    return Cause{cat(name_of(one.sender), " cannot send it: ", reason), "", "cnitool doctor", true};
  }
  if (one.answer.kind != Answer::Kind::kRefused) return std::nullopt;
  const bool is_own = one.answer.from == one.source || facts.has(*one.answer.from);
  if (is_own && one.answer.says_no_neighbour())
    return std::nullopt;  // it waited, and others did not
  return Cause{one.answer.str(), "", "", true};
}

// A rule may answer in the name of a pod that the request has not come to, or not passed.
bool is_reset_on_way(const Case& one) {
  const auto is_there = [&](const Sight& each) {
    const bool has_passed = each.hook == Hook::kTaken || each.hook == Hook::kLeaves;
    return each.place == one.subject_place && has_passed;
  };
  return one.answer.kind == Answer::Kind::kClosed && is_for_pod(one.question, one.subject) &&
         one.is_heard && std::ranges::none_of(one.trail.request_sights, is_there);
}

bool is_datagram(const Case& one) { return one.question.packet.kind == Kind::kDatagram; }

std::optional<Cause> first_of(std::span<const Gap> gaps, const Look& look) {
  for (const Gap& gap : gaps) {
    if (look.leg.last < gap.first || look.leg.last > gap.last) continue;
    if (auto cause = gap.reason(look)) return cause;
  }
  return std::nullopt;
}

std::optional<Cause> by_state(const Look& look) {
  if (auto cause = first_of(kGaps, look)) return cause;
  if (auto cause = dropped_by_legacy(look)) return cause;
  if (auto cause = taken_by_ipsec(look)) return cause;
  if (auto cause = dropped_by_kernel(look)) return cause;
  for (const Reason reason : kAnywhere) {
    if (auto cause = reason(look)) return cause;
  }
  if (auto cause = refused_by_policy(look.one)) return cause;
  if (auto cause = cause_of_drops(look.one, Evidence::kAny)) return cause;
  return may_be_silence(look) ? std::nullopt : first_of(kUnseen, look);
}

}  // namespace

bool may_be_silence(const Look& look) {
  const bool has_left =
      look.leg.is_beyond && !look.leg.is_answer && look.leg.last >= Spot::kLeavesNode;
  return has_left && !look.one.question.must_answer;
}

std::optional<Cause> cause_of(const Case& one, Scene& scene) {
  const Leg leg = lost_leg(one, scene.facts());
  const Look look{one, leg, scene};
  if (auto cause = dropped_by_rule(look)) return cause;
  if (auto cause = translated(one, scene)) {
    // From a bridge in a VRF the node's addresses are no local ones, which hostPorts need.
    for (const Reason reason : {broken_wire_from, broken_wire_to}) {
      if (auto broken = reason(look)) return broken;
    }
    if (one.flow) return cause;
    for (const Reason reason : {untracked_by_rule, untracked_by_legacy}) {
      if (auto untracked = reason(look)) return untracked;
    }
    return cause;
  }
  if (is_reset_on_way(one)) return dropped_by_legacy(look);
  if (one.answer.is_delivered()) return std::nullopt;
  if (is_datagram(one) && is_handed_on(look)) return std::nullopt;
  if (one.question.packet.size != 0) {
    if (auto cause = too_large(look)) return cause;
    if (auto cause = one.small_is_lost ? std::nullopt : dropped_by_kernel(look)) return cause;
    if (!one.small_is_lost && one.trail.drops.empty()) return lost_by_size(look);
  }
  if (auto cause = by_state(look)) return cause;
  if (auto cause = lost_by_size(look)) return cause;
  if (auto cause = refused_by_own_cgroup(look)) return cause;
  if (auto cause = refused(look)) return cause;
  // That it did not arrive is seen, though nobody has to answer.
  return is_datagram(one) && one.is_heard ? std::optional(Cause::none()) : std::nullopt;
}

}  // namespace tool::probe

#include "cnitool/probe/leg.h"

#include <optional>
#include <vector>

#include "cnitool/output.h"
#include "libcni/common/error.h"

namespace tool::probe {

namespace {

using cni::cat;

std::optional<Spot> spot_at_node(Hook hook, bool is_sender, bool is_receiver) {
  switch (hook) {
    case Hook::kDeviceIn:
      return Spot::kAtNode;
    case Hook::kBridgeIn:
    case Hook::kBridgeLocal:
      return Spot::kOnBridge;
    case Hook::kIn:
      return Spot::kAtIp;
    case Hook::kOut:
      if (!is_sender) return std::nullopt;  // an ICMP error about it
      [[fallthrough]];
    case Hook::kLocal:
    case Hook::kForward:
      return Spot::kRouted;
    case Hook::kTaken:
      return is_receiver ? Spot::kTaken : Spot::kRouted;
    case Hook::kLeaves:
      return Spot::kLeavesNode;
    case Hook::kBridgeForward:
      return Spot::kBridgeForward;
    case Hook::kBridgeOut:
      return Spot::kBridged;
    case Hook::kDeviceOut:
      return Spot::kOnLink;
    case Hook::kNone:
      break;
  }
  return std::nullopt;
}

std::optional<Spot> spot_in_pod(Hook hook, bool is_sender, bool is_receiver) {
  if (is_sender) {
    if (hook == Hook::kOut) return Spot::kSent;
    if (hook == Hook::kLeaves) return Spot::kLeft;
    if (hook == Hook::kDeviceOut) return Spot::kOnWire;
  }
  if (is_receiver) {
    if (hook == Hook::kDeviceIn) return Spot::kAtReceiver;
    if (hook == Hook::kIn || hook == Hook::kForward) return Spot::kAtReceiverIp;
    if (hook == Hook::kLocal) return Spot::kRoutedThere;
    if (hook == Hook::kTaken) return Spot::kTaken;
  }
  return std::nullopt;
}

struct Ends {
  std::size_t from = 0, to = 0;  // places; 0: the node, or beyond it
  bool is_beyond = false, is_from_beyond = false;
};

void follow(const std::vector<Sight>& sights, const Ends& ends, Leg& out) {
  for (const Sight& one : sights) {
    const auto spot = one.place == 0
                          ? spot_at_node(one.hook, ends.from == 0 && !ends.is_from_beyond,
                                         ends.to == 0 && !ends.is_beyond)
                          : spot_in_pod(one.hook, one.place == ends.from, one.place == ends.to);
    if (!spot || *spot < out.last) continue;
    out.last = *spot;
    out.in = one.in;
    out.out = one.out;
  }
}

bool is_of(const Subject& pod, const Ip& ip) {
  const auto own = address_of(pod, ip.family());
  return own && *own == ip;
}

}  // namespace

Leg lost_leg(const Case& one, const NodeFacts& facts) {
  const Ip to = destination_of(one.question);
  // `--from` gives the node packets in the name of a host, which is no attachment.
  const bool is_from_beyond = one.sender != nullptr && one.sender->key.ifname.empty();
  Leg out{.from = is_from_beyond ? nullptr : one.sender,
          .is_from_beyond = is_from_beyond,
          .source = one.source.value_or(Ip::any(to.family())),
          .target = to};
  Ends ends{.from = one.sender_place, .is_from_beyond = is_from_beyond};
  if (is_of(one.subject, to)) {
    out.to = &one.subject;
    ends.to = one.subject_place;
  } else {
    out.is_beyond = ends.is_beyond = !facts.has(to);
  }
  out.is_heard = one.is_heard;
  follow(one.trail.request_sights, ends, out);
  const bool is_there = out.last == Spot::kTaken || !one.trail.answer_sights.empty();
  if (!is_there) return out;
  Leg back{.is_answer = true,
           .from = out.to,
           .to = out.from,
           .is_beyond = is_from_beyond,
           .is_from_beyond = out.is_beyond,
           .source = out.target,
           .target = out.source,
           .is_heard = out.is_heard};
  follow(one.trail.answer_sights, {ends.to, ends.from, is_from_beyond, ends.is_beyond}, back);
  return back;
}

std::string Leg::str() const {
  constexpr const char* kPlaces[] = {"",
                                     "made in the pod that sends it",
                                     "behind the rules of the pod that sends it",
                                     "at the interface of the pod that sends it",
                                     "received by the node",
                                     "on the bridge",
                                     "in the node's prerouting",
                                     "behind the node's routing",
                                     "behind the node's rules",
                                     "on the bridge, from port to port",
                                     "on the bridge, on its way to a port",
                                     "at the link to its target",
                                     "received by the pod",
                                     "in the pod's prerouting",
                                     "behind the pod's routing",
                                     "taken"};
  if (last == Spot::kNowhere) return is_answer ? "it arrived, and no answer was seen" : "";
  std::string text = cat("its ", is_answer ? "answer" : "packet", " was last seen ",
                         kPlaces[static_cast<std::size_t>(last)]);
  if (!in.empty()) text += cat(", from '", printable(in), "'");
  if (!out.empty()) text += cat(", to '", printable(out), "'");
  return text;
}

}  // namespace tool::probe

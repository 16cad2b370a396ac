#pragma once

#include <cstdint>
#include <string>

#include "cnitool/probe/cause.h"

/// Where a probe was lost: on its way there or back, and how far it came.
namespace tool::probe {

/// In the order of a packet's way between pods; the node sends from kRouted on.
enum class Spot : std::uint8_t {
  kNowhere,
  kSent,           ///< made by the sending pod
  kLeft,           ///< behind the rules there
  kOnWire,         ///< handed over to its interface
  kAtNode,         ///< received by the node's link
  kOnBridge,       ///< received by a port of the bridge
  kAtIp,           ///< the node's prerouting
  kRouted,         ///< behind its routing
  kLeavesNode,     ///< behind its rules
  kBridgeForward,  ///< from port to port
  kBridged,        ///< behind the rules of the bridge
  kOnLink,         ///< handed over to the link to the receiver
  kAtReceiver,     ///< received by the pod's interface
  kAtReceiverIp,   ///< its prerouting
  kRoutedThere,    ///< for itself
  kTaken           ///< behind its rules
};

struct Leg {
  bool is_answer = false;
  const Subject *from = nullptr, *to = nullptr;  ///< null: the node, or a host beyond it
  bool is_beyond = false;                        ///< to is
  bool is_from_beyond = false;                   ///< from is
  Ip source, target;                             ///< as the pods know them
  Spot last = Spot::kNowhere;
  std::string in = {}, out = {};  ///< names of links, where it was last seen
  bool is_heard = true;           ///< the rules of all its places are followed

  /// "last seen in the node's prerouting, from 'cni0'"; empty: it was not.
  std::string str() const;
};

/// The one that was lost.
Leg lost_leg(const Case& one, const NodeFacts& facts);

}  // namespace tool::probe

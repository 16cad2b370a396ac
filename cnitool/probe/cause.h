#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cnitool/doctor/finding.h"
#include "cnitool/probe/follow.h"
#include "cnitool/probe/legacy.h"
#include "cnitool/probe/question.h"
#include "cnitool/probe/scene.h"
#include "netlink/nf/conntrack.h"

/// What keeps a packet from where it should arrive.
namespace tool::probe {

/// A probe that failed, and all that was seen of it.
struct Case {
  const Question& question;
  const Subject& subject;
  const Subject* sender = nullptr;  ///< null: the node
  std::optional<Ip> source = {};    ///< of its packets
  Answer answer = {};
  Trail trail = {};
  /// Of neighbours, of all probes together.
  const std::vector<Resolution>* resolutions = nullptr;
  const LegacyCounts* legacy = nullptr;             ///< null: unknown
  std::size_t sender_place = 0, subject_place = 0;  ///< indexes of Follower's posts
  bool is_heard = false;                            ///< all of its places are followed
  /// The connection that the node tracked for it; empty: none.
  std::optional<netlink::nf::Flow> flow = {};
  bool small_is_lost = false;  ///< so its size is no reason
};

/// The reason for a failure. Two that are equal are one.
struct Cause {
  std::string what;    ///< "chain 'input' of table inet harden drops packets: policy drop"
  std::string whose;   ///< "Docker's", "of another program or a person"; may be empty
  std::string remedy;  ///< a command, or what a person has to do
  /// What was seen of the packet, and not what is wrong: another cause of the same pods explains
  /// it.
  bool is_vague = false;
  auto operator<=>(const Cause&) const = default;
  /// Where something is wrong, and nothing is seen to be.
  static Cause none() { return {"no cause was seen on the node", "", "cnitool doctor"}; }
};

/// The first reason that is seen, in the order of a packet's way: the rules that took it, the
/// translation that led it elsewhere, and the state of what lies behind the place where it was last
/// seen. Empty: none is seen. \throws netlink::Error.
std::optional<Cause> cause_of(const Case& one, Scene& scene);

/// Whether the connection that the node tracked for a probe with an answer shows that it went
/// astray: its answer came from another host, or its source was replaced where it has to stay.
bool went_astray(const Case& one, const NodeFacts& facts);

}  // namespace tool::probe

#pragma once

#include <set>
#include <vector>

#include "cnitool/probe/question.h"
#include "cnitool/probe/target.h"

/// Questions that the user asks: of --to and --from.
namespace tool::probe {

/// The pods that live, and which of them are asked about: of equal size.
struct Choice {
  const std::vector<Subject>& subjects;
  const std::vector<bool>& asked;
};

/// Of each pod to an address.
std::vector<Question> questions_to(const Choice& pods, const Target& target);

/// Of each pod, and of the node if it routes them, to the interfaces of one pod: the containers.
/// An interface is asked by those of its network, and by routed ones of pods that have none there.
std::vector<Question> questions_to_pod(const Choice& pods, const Target& target,
                                       const std::set<std::string>& containers);

/// Of each pod to the name servers of its result, by UDP and TCP.
std::vector<Question> questions_to_name_servers(const Choice& pods);

/// What comes in from that host: to the hostPorts of the pods, and to the addresses of those that
/// the node routes.
std::vector<Question> questions_from(const Choice& pods, const NodeFacts& node, const Ip& source);

}  // namespace tool::probe

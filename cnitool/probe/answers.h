#pragma once

#include <vector>

#include "cnitool/probe/question.h"
#include "cnitool/probe/scene.h"
#include "cnitool/probe/sender.h"

/// How far answers are to be trusted.
namespace tool::probe {

/// Where the policy leads pods out by another way than the node, the first hop there says that the
/// time to live is over.
bool leads_elsewhere(const Question& question, const Answer& answer, const NodeFacts& facts);

/// Whether it asks for a gateway that is no address of the node: that the link layer finds it is
/// what a pod needs of it, and is_found() says. By that time at the latest. \throws netlink::Error.
bool is_of_foreign_router(const Question& question);
bool is_found(const Ip& router, netlink::RouteSocket& sender, ArpClock::time_point end);

/// An ICMP error that calls a port of UDP closed is easily forged: it counts of whom was asked, of
/// the pod and of the node. Others are no answers. \param questions of the shots.
void distrust(std::vector<Shot>& shots, const std::vector<Question>& questions,
              const NodeFacts& facts);

/// Whether a small packet to where the large one goes is lost, too, or is answered by another host:
/// routers say to a few packets a second alone that their time to live is over.
/// \param all the questions, with their answers.
bool is_lost_small(const Question& large, const std::vector<Question>& all,
                   const std::vector<Answer>& answers);

}  // namespace tool::probe

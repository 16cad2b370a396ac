#include "cnitool/probe/answers.h"

namespace tool::probe {

bool leads_elsewhere(const Question& question, const Answer& answer, const NodeFacts& facts) {
  return !question.must_answer && question.packet.kind == Kind::kEcho && answer.says_too_far() &&
         !facts.has(*answer.from);
}

bool is_of_foreign_router(const Question& question) {
  return question.about == About::kGateway && !question.must_answer && question.sender;
}

bool is_found(const Ip& router, netlink::RouteSocket& sender, ArpClock::time_point end) {
  const auto path = sender.path_to(router);
  return path && resolved_by(end, sender, path->link, router);
}

void distrust(std::vector<Shot>& shots, const std::vector<Question>& questions,
              const NodeFacts& facts) {
  for (std::size_t i = 0; i < shots.size(); ++i) {
    Answer& answer = shots[i].answer;
    const Packet& packet = shots[i].packet;
    if (packet.kind != Kind::kDatagram || answer.kind != Answer::Kind::kClosed) continue;
    const bool is_asked = answer.from == packet.target ||
                          answer.from == destination_of(questions[i]) || facts.has(*answer.from);
    if (!is_asked) answer = {};
  }
}

bool is_lost_small(const Question& large, const std::vector<Question>& all,
                   const std::vector<Answer>& answers) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Packet& packet = all[i].packet;
    const bool is_same = all[i].sender == large.sender && packet.kind == large.packet.kind &&
                         packet.target == large.packet.target;
    if (is_same && packet.size == 0 && !answers[i].is_delivered()) return true;
  }
  return false;
}

}  // namespace tool::probe

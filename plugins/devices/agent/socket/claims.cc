#include "plugins/devices/agent/socket/claims.h"

namespace devices {

std::optional<Answer> Claims::at_once(const Question& question) const {
  if (question.verb != Verb::kClaim || core_.concerns(question.pod)) return std::nullopt;
  return Answer{};
}

Answer Claims::later(const Question& question) const {
  Answer out;
  if (question.verb == Verb::kClaim) {
    const Pod& pod = question.pod;
    const auto listed = pods_.get(pod.space, pod.name);
    out.devices = core_.claim(pod, listed ? listed->devices : std::vector<Owned>());
    return out;
  }
  for (const Count& one : core_.counts()) {
    out.resources.push_back({one.resource, static_cast<std::int64_t>(one.devices),
                             static_cast<std::int64_t>(one.healthy)});
  }
  return out;
}

}  // namespace devices

#include "plugins/devices/agent/socket/claims.h"

namespace devices {

Answer Claims::operator()(const Question& question) const {
  Answer out;
  if (question.verb == Verb::kClaim) {
    out.devices = claim(question.pod);
    return out;
  }
  for (const Count& one : core_.counts()) {
    out.resources.push_back({one.resource, static_cast<std::int64_t>(one.devices),
                             static_cast<std::int64_t>(one.healthy)});
  }
  return out;
}

std::vector<std::string> Claims::claim(const Pod& pod) const {
  if (!core_.concerns(pod)) return {};
  const auto listed = pods_.get(pod.space, pod.name);
  return core_.claim(pod, listed ? listed->devices : std::vector<Owned>());
}

}  // namespace devices

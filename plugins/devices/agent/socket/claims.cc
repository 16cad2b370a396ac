#include "plugins/devices/agent/socket/claims.h"

#include "libcni/common/error.h"

namespace devices {

std::optional<Answer> Claims::at_once(const Question& question) const {
  if (question.verb != Verb::kClaim || core_.concerns(question.pod)) return std::nullopt;
  return Answer{};
}

Answer Claims::later(const Question& question) const {
  Answer out;
  if (question.verb == Verb::kClaim) {
    const Pod& pod = question.pod;
    const auto known = pods_.get(pod.space, pod.name);
    // A kubelet that has just started: a runtime goes on with what the earlier one has asked for.
    if (!known) {
      throw cni::Error(cni::Code::kTryAgainLater,
                       cni::cat("claim devices for ", pod.str(), ": the kubelet does not know it"),
                       "it has just started, or the pod was removed");
    }
    out.devices = core_.claim(pod, known->devices);
    return out;
  }
  for (const Count& one : core_.counts()) {
    out.resources.push_back({one.resource, static_cast<std::int64_t>(one.devices),
                             static_cast<std::int64_t>(one.healthy), one.is_read});
  }
  return out;
}

}  // namespace devices

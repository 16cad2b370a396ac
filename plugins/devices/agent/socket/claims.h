#pragma once

#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/kubelet/pod_resources.h"
#include "plugins/devices/protocol/message.h"

namespace devices {

/// Answers what the plugin `devices` asks. Thread-safe. core and pods outlive it.
class Claims {
 public:
  Claims(Core& core, PodResources& pods) : core_(core), pods_(pods) {}

  /// kClaim: the kubelet is asked which devices the pod has, unless no device can be the pod's.
  /// \throws cni::Error(kTryAgainLater) where the kubelet does not answer, or a device is still
  /// another pod's.
  Answer operator()(const Question& question) const;

 private:
  std::vector<std::string> claim(const Pod& pod) const;

  Core& core_;
  PodResources& pods_;
};

}  // namespace devices

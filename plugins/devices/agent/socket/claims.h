#pragma once

#include <optional>

#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/kubelet/pod_resources.h"
#include "plugins/devices/protocol/message.h"

namespace devices {

/// Answers what the plugin `devices` asks. Thread-safe. core and pods outlive it.
class Claims {
 public:
  Claims(Core& core, PodResources& pods) : core_(core), pods_(pods) {}

  /// Of a claim of a pod that no device can be of: the kubelet need not be asked.
  std::optional<Answer> at_once(const Question& question) const;
  /// kClaim: the kubelet is asked which devices the pod has, also where the ledger has devices of a
  /// pod of that name. It alone knows whether this is that pod or its successor without devices,
  /// for which there was no Allocate. \throws cni::Error(kTryAgainLater) where the kubelet does not
  /// answer or does not know the pod, or a device is still another pod's.
  Answer later(const Question& question) const;

 private:
  Core& core_;
  PodResources& pods_;
};

}  // namespace devices

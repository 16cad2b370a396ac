#pragma once

#include <atomic>
#include <deque>
#include <optional>
#include <string>

#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/kubelet/registrar.h"

namespace devices {

/// The agent's faces to the kubelet: DevicePlugin for each resource, registered by a socket in
/// DIR/plugins_registry where that folder exists, else by DIR/device-plugins/kubelet.sock. A
/// kubelet that is absent, starts, or starts again is waited for. Serves as long as it exists.
///
/// Threads: one that registers, one in which the core works, and those of gRPC, whose number does
/// not depend on that of resources, streams or calls.
class Kubelet {
 public:
  /// Subscribes to the core, which outlives it, and is refreshed by the thread that ends it.
  Kubelet(Core& core, const std::string& dir);
  /// Ends the streams and removes its sockets.
  ~Kubelet();
  Kubelet(const Kubelet&) = delete;
  Kubelet& operator=(const Kubelet&) = delete;

 private:
  void publish();

  Core& core_;
  std::deque<Resource> resources_;
  std::atomic<bool> publishing_ = false;  // a job for that waits
  Worker worker_;
  std::optional<Registrar> registrar_;
};

}  // namespace devices

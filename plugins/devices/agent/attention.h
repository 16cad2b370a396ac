#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/kubelet/pod_resources.h"

namespace devices {

/// Asks PodResources whose the devices are, and tells the core: every 30 s, and soon after each
/// Allocate, until the pod is known. In a thread of its own, because the kubelet may take seconds.
class Attention {
 public:
  /// core and pods outlive it.
  Attention(Core& core, PodResources& pods);
  ~Attention();
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  /// After Allocate. From any thread.
  void wake();

 private:
  void run();
  bool look();

  Core& core_;
  PodResources& pods_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_woken_ = false, is_stopping_ = false;
  std::string last_error_;
  std::thread thread_;
};

}  // namespace devices

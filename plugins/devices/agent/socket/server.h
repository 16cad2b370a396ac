#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libcni/common/error.h"
#include "libcni/daemon/event_loop.h"
#include "libcni/daemon/line_server.h"
#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/kubelet/pod_resources.h"
#include "plugins/devices/agent/promises.h"
#include "plugins/devices/agent/worker.h"

namespace devices {

/// Devices of a pod besides those that PodResources lists; empty: there are none. May throw
/// cni::Error, which is the answer.
using Unlisted =
    std::function<std::vector<Owned>(const Pod& pod, const std::vector<Owned>& listed)>;

/// The agent's socket for the plugin `devices`.
///
/// Threads: one with an event loop for all connections, and a few for the questions whose answers
/// wait for the kubelet.
class SocketServer {
 public:
  /// Listens at path, in place of another instance that does. \throws cni::Error, netlink::Error.
  /// core and pods outlive it.
  SocketServer(const std::string& path, Core& core, PodResources& pods, Unlisted unlisted = {});
  /// Ends all connections, waits for answers that are under way, and removes the socket unless
  /// another instance has the path by now.
  ~SocketServer();
  SocketServer(const SocketServer&) = delete;
  SocketServer& operator=(const SocketServer&) = delete;

 private:
  /// A claim, until the kubelet has said what the pod has.
  struct Waiting {
    std::uint64_t number;
    Pod pod;
  };
  struct Listed {
    Moment asked = moment_now();
    std::vector<PodDevices> pods = {};
    std::optional<cni::Error> error = {};
  };

  void ask(std::uint64_t number, const std::string& line);
  void look_up();
  void claim_one(const Waiting& one, const std::shared_ptr<const Listed>& listed);
  void finish(std::uint64_t number, std::string line);

  Core& core_;
  PodResources& pods_;
  const Unlisted unlisted_;
  cni::EventLoop loop_;
  cni::LineServer lines_;
  std::atomic<bool> is_stopping_ = false;
  std::mutex mutex_;
  std::vector<Waiting> waiting_;  // with the mutex
  Worker workers_;                // which post to the loop
  std::thread thread_;
};

}  // namespace devices

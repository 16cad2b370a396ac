#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "libcni/daemon/acceptor.h"
#include "libcni/daemon/event_loop.h"
#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/kubelet/pod_resources.h"
#include "plugins/devices/agent/promises.h"
#include "plugins/devices/agent/worker.h"

namespace devices {

/// Devices of a pod besides those that PodResources lists; empty: there are none. May throw
/// cni::Error, which is the answer.
using Unlisted =
    std::function<std::vector<Owned>(const Pod& pod, const std::vector<Owned>& listed)>;

/// The agent's socket for the plugin `devices`. A client may be hostile: it gets no more than a
/// connection, 5 s and kMaxQuestion bytes, and is closed after one answer.
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
  /// It asks, waits, and is answered.
  struct Client {
    netlink::Fd fd;
    std::string question = {};
    std::string answer = {};  ///< bytes to send
  };

  void take(netlink::Fd fd);
  void receive(std::uint64_t number);
  void ask(std::uint64_t number, const std::string& line);
  void answer(std::uint64_t number, const std::string& line);
  void send(std::uint64_t number);
  void end(std::uint64_t number);

  Core& core_;
  PodResources& pods_;
  const Unlisted unlisted_;
  cni::EventLoop loop_;
  std::map<std::uint64_t, Client> clients_;
  std::uint64_t next_ = 0;
  cni::Acceptor acceptor_;
  std::atomic<bool> is_stopping_ = false;
  Worker workers_;  // which post to the loop
  std::thread thread_;
};

}  // namespace devices

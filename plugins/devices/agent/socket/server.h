#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "plugins/devices/protocol/message.h"

namespace devices {

/// The agent's socket for the plugin `devices`. A client may be hostile: it gets no more than a
/// connection, 5 s and kMaxQuestion bytes, and is closed after one answer.
///
/// Threads: one with an event loop for all connections, and a few for the questions whose answers
/// wait for the kubelet.
class SocketServer {
 public:
  /// What a function throws becomes the answer's error.
  struct Handler {
    /// In the thread of the loop: it must not wait. Empty: later is called.
    std::function<std::optional<Answer>(const Question&)> at_once;
    /// By several threads at once.
    std::function<Answer(const Question&)> later;
  };

  /// Listens at path, in place of another instance that does. \throws cni::Error, netlink::Error.
  SocketServer(const std::string& path, Handler handler);
  /// Ends all connections, waits for answers that are under way, and removes the socket unless
  /// another instance has the path by now.
  ~SocketServer();
  SocketServer(const SocketServer&) = delete;
  SocketServer& operator=(const SocketServer&) = delete;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace devices

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "plugins/devices/protocol/message.h"

namespace devices {

/// The agent's socket for the plugin `devices`. A client may be hostile: it gets no more than a
/// connection, 5 s and kMaxQuestion bytes, and is closed after one answer.
///
/// Threads: one with poll(2) for all connections, and a few in which questions are answered, since
/// an answer may wait for the kubelet.
class SocketServer {
 public:
  /// Called by several threads at once. What it throws becomes the answer's error.
  using Handler = std::function<Answer(const Question&)>;

  /// Listens at path, in place of another instance that does. \throws cni::Error, netlink::Error.
  SocketServer(const std::string& path, Handler handler);
  /// Ends all connections, waits for answers that are under way, and removes the socket unless
  /// another instance has the path by now.
  ~SocketServer();
  SocketServer(const SocketServer&) = delete;
  SocketServer& operator=(const SocketServer&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace devices

#pragma once

#include <functional>
#include <map>
#include <string>
#include <thread>

#include "libcni/daemon/event_loop.h"
#include "plugins/devices/agent/nri/connection.h"
#include "plugins/state/ledger_entry.h"

namespace devices::nri {

/// Sandboxes of the node that were seen, and so can be seen to end: by an event, or because a later
/// list does not have them. One that was never seen has not ended: a runtime does not list a
/// sandbox while ADD runs.
class Seen {
 public:
  /// A list of all sandboxes. Returns the pods of those that ended since the last one.
  std::vector<Pod> list(const std::vector<Sandbox>& listed);
  /// The sandbox exists.
  void add(const Sandbox& sandbox);
  /// Whether it is the first time that the sandbox is seen to end.
  bool end(const Sandbox& sandbox);

 private:
  std::map<std::string, Pod> sandboxes_;  // by ID
};

/// Calls back when a sandbox of a pod has ended, be it while the runtime or the connection was
/// away. In a thread of its own.
class SandboxWatch {
 public:
  SandboxWatch(std::string socket, std::function<void(const Pod&)> ended);
  ~SandboxWatch();
  SandboxWatch(const SandboxWatch&) = delete;
  SandboxWatch& operator=(const SandboxWatch&) = delete;

 private:
  std::function<void(const Pod&)> ended_;
  Seen seen_;
  cni::EventLoop loop_;
  Connection connection_;
  std::thread thread_;
};

}  // namespace devices::nri

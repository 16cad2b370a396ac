#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "libcni/daemon/event_loop.h"
#include "libcni/daemon/folder_watch.h"
#include "netlink/types/fd.h"
#include "plugins/devices/agent/nri/session.h"

namespace devices::nri {

inline constexpr const char* kSocket = "/var/run/nri/nri.sock";

/// Where the runtime is: a socket that the plugin connects to, or the connection that the runtime
/// has passed to a plugin which it has started.
struct Peer {
  std::string socket = kSocket;
  netlink::Fd passed = {};
};

/// A plugin's connection to the runtime, in a loop. Connects again after the runtime was restarted,
/// and waits for a socket that does not exist yet by a watch of its folder. A passed connection
/// that ends stops the loop: the runtime starts the plugin again.
///
/// What the plugin wants to hear is called after the runtime has its answer, so that no pod waits
/// for it. `configured` and `create` are called before, and have 2 s: a plugin that takes longer is
/// disconnected, and the runtime goes on without it.
class Connection {
 public:
  /// loop and plugin outlive it. \throws cni::Error for a path that is too long.
  Connection(cni::EventLoop& loop, Peer peer, Identity identity, Plugin plugin);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

 private:
  void listen_to(Plugin plugin);
  void connect();
  bool watch_folders();
  void look();
  void begin(netlink::Fd fd);
  void on_ready();
  void read();
  void flush();
  void check_progress();
  void fail(const std::string& why);
  void retry_in(std::chrono::milliseconds pause);
  void report(const std::string& why);

  cni::EventLoop& loop_;
  const std::string path_;
  const bool is_passed_;
  const Identity identity_;
  Plugin plugin_;  ///< calls of which are posted to the loop
  cni::FolderWatch folders_;
  netlink::Fd fd_;
  std::optional<Session> session_;
  std::string out_;        ///< what the socket did not take yet
  cni::BootTime since_{};  ///< when it connected
  bool was_partial_ = false;
  std::size_t calls_ = 0;            ///< of the session, when the time of a message began
  std::chrono::milliseconds pause_;  ///< before the next attempt
  std::string last_error_;
  const char retry_ = 0, deadline_ = 0;  ///< owners of times
};

}  // namespace devices::nri

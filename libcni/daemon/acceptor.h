#pragma once

#include <functional>
#include <string>

#include "libcni/daemon/event_loop.h"
#include "libcni/daemon/listener.h"

namespace cni {

/// Accepts connections in a loop. Where the socket's file was removed, nobody reaches the daemon:
/// it listens again, some seconds later.
class Acceptor {
 public:
  struct Handler {
    /// A connection of root's or of this process's user.
    std::function<void(netlink::Fd)> accepted;
    /// Makes the listener anew, whose file was removed.
    std::function<Listener(const std::string& path)> again;
    /// That failed, as in a container whose mount is that of the removed folder: another process is
    /// needed, with another mount.
    std::function<void(const std::exception&)> lost;
  };

  /// loop outlives it.
  Acceptor(EventLoop& loop, Listener listener, Handler handler);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  /// Connections wait in the backlog until resume().
  void pause();
  void resume();

 private:
  void accept();
  bool accept_one();
  void keep();

  EventLoop& loop_;
  Listener listener_;
  Handler handler_;
  bool is_paused_ = false;
  const char pause_ = 0, keep_ = 0;  ///< owners of times
};

}  // namespace cni

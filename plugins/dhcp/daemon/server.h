#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "libcni/daemon/acceptor.h"
#include "libcni/daemon/event_loop.h"
#include "libcni/daemon/listener.h"
#include "netlink/types/fd.h"
#include "plugins/dhcp/protocol/protocol.h"

namespace dhcp {

using cni::EventLoop;

/// The daemon's socket, and what keeps another daemon from it.
struct Listening {
  cni::Listener listener;
  netlink::Fd lock = {};  ///< of a socket that is this daemon's own
};

/// The one that systemd passed, else listen_on().
Listening open_listener(const std::string& path);
/// A new one at path, in place of a socket file that nobody listens on, under a lock. \throws
/// cni::Error if another daemon serves the socket; netlink::Error.
Listening listen_on(const std::string& path);

/// A call of a connection, for the answer.
struct Asked {
  std::uint64_t connection = 0;
  Call call;
};

/// The daemon's side of the socket. Only root, or who the daemon runs as, is answered.
class Server {
 public:
  using OnCall = std::function<void(const Asked&)>;
  using OnClose = std::function<void(std::uint64_t connection)>;
  using OnLost = std::function<void(const std::exception& why)>;

  /// loop outlives it. on_close is not called for connections that the server itself closes.
  /// on_lost: nobody reaches the socket any more.
  Server(EventLoop& loop, Listening listening, OnCall on_call, OnClose on_close, OnLost on_lost);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// To a connection that was closed meanwhile they do nothing.
  void answer(const Asked& asked, const cni::Result& result);
  void answer_text(const Asked& asked, std::string_view text);
  void answer_nothing(const Asked& asked);
  void answer_error(const Asked& asked, std::string_view error);

 private:
  struct Connection;
  void take(netlink::Fd fd);
  void serve(std::uint64_t id);
  bool read(Connection& connection);
  void take_calls(std::uint64_t id);
  bool greet(Connection& connection);
  void send(std::uint64_t id, const std::string& bytes);
  void flush(std::uint64_t id);
  void limit(std::uint64_t id, Connection& connection);
  void close(std::uint64_t id, bool tell);
  AnswerEncoder* encoder(const Asked& asked);

  EventLoop& loop_;
  OnCall on_call_;
  OnClose on_close_;
  std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::uint64_t next_ = 1;
  netlink::Fd lock_;
  cni::Acceptor acceptor_;
};

}  // namespace dhcp

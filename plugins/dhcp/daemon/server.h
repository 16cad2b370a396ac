#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "netlink/types/fd.h"
#include "plugins/dhcp/daemon/event_loop.h"
#include "plugins/dhcp/protocol/protocol.h"

namespace dhcp {

/// The socket that the daemon listens on.
struct Listener {
  netlink::Fd fd;
  std::string path = {};  ///< empty: unknown
  ino_t inode = 0;        ///< of the file
  netlink::Fd lock = {};  ///< of a socket that is ours
  bool is_ours = false;   ///< else systemd made it, which goes on to listen when the daemon ends

  /// Whether its file was removed beneath the daemon.
  bool is_lost() const;
  /// Removes the file of one that is ours.
  void remove() const noexcept;
};

/// The one that systemd passed (sd_listen_fds(3)), else listen_on().
Listener open_listener(const std::string& path);
/// A new one at path, mode 0600, whose directory is made. A socket file that nobody listens on is
/// replaced, under a lock. \throws cni::Error if another daemon serves the socket; netlink::Error.
Listener listen_on(const std::string& path);

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

  /// loop outlives it. on_close is not called for connections that the server itself closes.
  Server(EventLoop& loop, netlink::Fd listener, OnCall on_call, OnClose on_close);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Accepts from this one from now on; connections stay.
  void replace_listener(netlink::Fd listener);

  /// To a connection that was closed meanwhile they do nothing.
  void answer(const Asked& asked, const cni::Result& result);
  void answer_text(const Asked& asked, std::string_view text);
  void answer_nothing(const Asked& asked);
  void answer_error(const Asked& asked, std::string_view error);

 private:
  struct Connection;
  void accept();
  /// False where there is none to accept.
  bool accept_one();
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
  netlink::Fd listener_;
  OnCall on_call_;
  OnClose on_close_;
  std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::uint64_t next_ = 1;
};

}  // namespace dhcp

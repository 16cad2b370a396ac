#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "libcni/daemon/client.h"
#include "libcni/plugin/request.h"
#include "plugins/dhcp/protocol/protocol.h"

/// The plugin's side of the daemon's socket.
namespace dhcp {

/// A connection for one call, with one deadline from connect(2) to the answer. Everything throws
/// cni::Error; kTryAgainLater after the deadline.
class Connection {
 public:
  using Clock = cni::Client::Clock;

  /// Connects and waits for the daemon's welcome: a busy daemon needs time for both.
  /// \throws cni::Error(kPluginUnavailable) if there is no daemon.
  Connection(const std::string& path, Clock::duration limit);
  /// The same; empty if no daemon listens on path.
  static std::optional<Connection> find(const std::string& path, Clock::duration limit);

  /// The body of the answer. \throws cni::Error: "error calling METHOD: " and the daemon's error.
  gob::Value call(const Call& call);
  /// Whether the daemon has answered, be it with an error.
  bool is_answered() const { return answered_; }

 private:
  Connection(const std::string& path, netlink::Fd fd, Clock::time_point end);
  /// Header and body of the answer.
  std::vector<gob::Value> exchange(const Call& call);

  cni::Client client_;
  std::string path_, received_;
  bool answered_ = false;
};

/// Connects, and calls once.
gob::Value call_daemon(const std::string& path, const Call& call,
                       Connection::Clock::duration limit);

/// The request as the arguments of a call.
Call call_of(const cni::Request& request, std::string_view method);

/// Whether the error is that of a daemon which does not know the method: the reference plugins'.
bool is_unknown_method(const cni::Error& error);

}  // namespace dhcp

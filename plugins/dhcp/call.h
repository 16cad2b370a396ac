#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "libcni/plugin/request.h"
#include "plugins/dhcp/protocol.h"

/// The plugin's side of the daemon's socket.
namespace dhcp {

/// A connection for one call. Everything throws cni::Error.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::seconds kPatience{10};

  /// Until the daemon has said welcome, which one with many leases to renew has no time for at
  /// once. \throws cni::Error(kPluginUnavailable).
  explicit Connection(const std::string& path, Clock::duration limit = kPatience);
  /// The same; nothing where nobody listens there.
  static std::optional<Connection> find(const std::string& path);

  /// The body of the answer. \throws cni::Error: "error calling METHOD: " and what the daemon said;
  /// kTryAgainLater where it did not answer within limit.
  gob::Value call(const Call& call, Clock::duration limit);

 private:
  Connection(const std::string& path, netlink::Fd fd, Clock::duration limit);
  void send(std::string_view bytes, Clock::time_point end);
  /// Adds what comes to received_. \throws cni::Error where the daemon closed it.
  void receive(Clock::time_point end);
  void wait(short events, Clock::time_point end);

  netlink::Fd fd_;
  std::string path_, received_;
};

/// Connects, and calls once.
gob::Value call_daemon(const std::string& path, const Call& call,
                       Connection::Clock::duration limit);

/// What the request says, as the arguments of a call.
Call call_of(const cni::Request& request, std::string_view method);

/// Whether the error is that of a daemon which does not know the method: the reference plugins'.
bool is_unknown_method(const cni::Error& error);

}  // namespace dhcp

#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "netlink/types/fd.h"

namespace cni {

/// The client's side of a connection to a daemon, with one deadline for all of it. Everything
/// throws netlink::Error: ETIMEDOUT after the deadline, ECONNRESET where the daemon closed it.
class Client {
 public:
  using Clock = std::chrono::steady_clock;

  /// \param path of the daemon's socket, for errors
  /// \param fd of connect_to()
  Client(std::string path, netlink::Fd fd, Clock::time_point end);

  void send(std::string_view bytes);
  /// Appends what has arrived, at least a byte.
  void receive(std::string& into);

 private:
  [[noreturn]] void fail(const char* verb, int error) const;
  void wait(short events) const;

  std::string path_;
  netlink::Fd fd_;
  Clock::time_point end_;
};

/// Sends a line, with its newline, to the socket at path and returns the line of the answer,
/// without it. \throws netlink::Error: ENOENT or ECONNREFUSED where nobody listens; as Client;
/// EMSGSIZE for more than most bytes.
std::string exchange_line(const std::string& path, std::string_view line,
                          Client::Clock::duration limit, std::size_t most);

}  // namespace cni

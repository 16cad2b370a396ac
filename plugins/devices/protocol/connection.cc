#include "plugins/devices/protocol/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "libcni/common/error.h"
#include "plugins/devices/protocol/message.h"

namespace devices {

namespace {

using cni::cat;
using netlink::Fd;
using Steady = std::chrono::steady_clock;

/// A socket that is not waited for longer than to the deadline.
struct Wire {
  const std::string& path;
  Steady::time_point end;
  Fd fd = {};

  [[noreturn]] void fail(const char* verb, int error) const {
    throw netlink::Error(cat(verb, " '", path, "'"), error);
  }
  // Empty events: only time passes.
  void wait(short events, int at_most_ms = -1) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Steady::now()).count();
    if (left <= 0) fail("wait for", ETIMEDOUT);
    const int ms = static_cast<int>(at_most_ms < 0 ? left : std::min<long>(left, at_most_ms));
    pollfd ready{events == 0 ? -1 : fd.get(), events, 0};
    const int count = ::poll(&ready, 1, ms);
    if (count < 0 && errno != EINTR) fail("wait for", errno);
    if (count == 0 && events != 0) fail("wait for", ETIMEDOUT);
  }
};

// If the backlog is full, connect(2) fails at once with EAGAIN, and poll(2) does not report when it
// would succeed (unix_stream_connect() in net/unix/af_unix.c).
void connect(Wire& wire) {
  constexpr int kPauseMs = 20;
  const sockaddr_un address = socket_address(wire.path);
  wire.fd = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!wire.fd) wire.fail("open a socket for", errno);
  while (::connect(wire.fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
         0) {
    if (errno != EAGAIN) wire.fail("connect to", errno);
    wire.wait(0, kPauseMs);
  }
}

void send_all(const Wire& wire, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::send(wire.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {
      wire.wait(POLLOUT);
    } else if (errno != EINTR) {
      wire.fail("write to", errno);
    }
  }
}

std::string receive_line(const Wire& wire) {
  std::string out;
  char buffer[4096];
  while (out.size() <= kMaxAnswer) {
    const ssize_t size = ::recv(wire.fd.get(), buffer, sizeof buffer, 0);
    if (size > 0) {
      const std::string_view piece(buffer, static_cast<std::size_t>(size));
      const auto newline = piece.find('\n');
      out += piece.substr(0, newline);
      if (newline != piece.npos) return out;
    } else if (size == 0) {
      wire.fail("read from", ECONNRESET);
    } else if (errno == EAGAIN) {
      wire.wait(POLLIN);
    } else if (errno != EINTR) {
      wire.fail("read from", errno);
    }
  }
  wire.fail("read from", EMSGSIZE);
}

}  // namespace

sockaddr_un socket_address(const std::string& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  if (path.empty() || path.size() > kMaxSocketPath) {
    throw cni::Error(cni::Code::kInvalidConfig,
                     cat("the socket path '", path, "' must have 1 to ", kMaxSocketPath, " bytes"));
  }
  std::copy(path.begin(), path.end(), out.sun_path);
  return out;
}

std::string exchange(const std::string& path, const std::string& line, Steady::duration limit) {
  Wire wire{.path = path, .end = Steady::now() + limit};
  connect(wire);
  send_all(wire, line);
  return receive_line(wire);
}

}  // namespace devices

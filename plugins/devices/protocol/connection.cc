#include "plugins/devices/protocol/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string_view>

#include "libcni/common/error.h"
#include "libcni/common/unix_socket.h"
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
  void wait(short events) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Steady::now()).count();
    if (left <= 0) fail("wait for", ETIMEDOUT);
    pollfd ready{fd.get(), events, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(left));
    if (count < 0 && errno != EINTR) fail("wait for", errno);
    if (count == 0) fail("wait for", ETIMEDOUT);
  }
};

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

std::string exchange(const std::string& path, const std::string& line, Steady::duration limit) {
  const Steady::time_point end = Steady::now() + limit;
  const Wire wire{.path = path, .end = end, .fd = cni::connect_to(path, end)};
  if (!wire.fd) wire.fail("connect to", errno == EAGAIN ? ETIMEDOUT : errno);
  send_all(wire, line);
  return receive_line(wire);
}

}  // namespace devices

#include "libcni/daemon/client.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/daemon/unix_socket.h"

namespace cni {

Client::Client(std::string path, netlink::Fd fd, Clock::time_point end)
    : path_(std::move(path)), fd_(std::move(fd)), end_(end) {}

void Client::fail(const char* verb, int error) const {
  throw netlink::Error(cat(verb, " '", path_, "'"), error);
}

void Client::wait(short events) const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
  if (left <= 0) fail("wait for", ETIMEDOUT);
  pollfd ready{fd_.get(), events, 0};
  const int count = ::poll(&ready, 1, static_cast<int>(left));
  if (count < 0 && errno != EINTR) fail("wait for", errno);
  if (count == 0) fail("wait for", ETIMEDOUT);
}

void Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {
      wait(POLLOUT);
    } else if (errno != EINTR) {
      fail("write to", errno);
    }
  }
}

void Client::receive(std::string& into) {
  char buffer[4096];
  for (;;) {
    const ssize_t size = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (size > 0) {
      into.append(buffer, static_cast<std::size_t>(size));
      return;
    }
    if (size == 0) fail("read from", ECONNRESET);
    if (errno == EAGAIN) {
      wait(POLLIN);
    } else if (errno != EINTR) {
      fail("read from", errno);
    }
  }
}

std::string exchange_line(const std::string& path, std::string_view line,
                          Client::Clock::duration limit, std::size_t most) {
  const auto end = Client::Clock::now() + limit;
  netlink::Fd fd = connect_to(path, end);
  if (!fd)
    throw netlink::Error(cat("connect to '", path, "'"), errno == EAGAIN ? ETIMEDOUT : errno);
  Client client(path, std::move(fd), end);
  client.send(line);
  std::string out;
  for (;;) {
    client.receive(out);
    if (const auto newline = out.find('\n'); newline != out.npos) return out.substr(0, newline);
    if (out.size() > most) throw netlink::Error(cat("read from '", path, "'"), EMSGSIZE);
  }
}

}  // namespace cni

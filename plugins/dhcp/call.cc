#include "plugins/dhcp/call.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "plugins/dhcp/socket_address.h"

namespace dhcp {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;

Error unreachable(const std::string& path, std::string_view cause) {
  return {Code::kPluginUnavailable, cat("error dialing DHCP daemon: dial unix ", path, ": ", cause),
          "start the daemon: systemctl enable --now cni-dhcp.socket, or dhcp daemon"};
}

// Empty where it fails, with errno.
netlink::Fd connect_to(const std::string& path) {
  const sockaddr_un address = socket_address(path);
  netlink::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return fd;
  }
  const int error = errno;
  fd.reset();
  errno = error;
  return fd;
}

// The daemon's words. Where a server did not answer in time, or had no address left, it may later.
Error refusal(const Call& call, const std::string& text) {
  const bool later = text.find("no more tries") != std::string::npos;
  return {later ? Code::kTryAgainLater : Code::kInternal,
          cat("error calling ", call.method, ": ", text)};
}

}  // namespace

Connection::Connection(const std::string& path, Clock::duration limit)
    : Connection(path, connect_to(path), limit) {}

std::optional<Connection> Connection::find(const std::string& path) {
  netlink::Fd fd = connect_to(path);
  // ENOENT: no file; ECONNREFUSED: that of a daemon that was killed.
  if (!fd && (errno == ENOENT || errno == ECONNREFUSED)) return std::nullopt;
  return Connection(path, std::move(fd), kPatience);
}

Connection::Connection(const std::string& path, netlink::Fd fd, Clock::duration limit)
    : fd_(std::move(fd)), path_(path) {
  if (!fd_) throw unreachable(path, cat("connect: ", netlink::errno_text(errno)));
  ::fcntl(fd_.get(), F_SETFL, O_NONBLOCK);
  const auto end = Clock::now() + limit;
  send(kHello, end);
  std::size_t at = std::string::npos;
  while ((at = received_.find("\n\n")) == std::string::npos) receive(end);
  const std::string line = received_.substr(0, received_.find('\n'));
  received_.erase(0, at + 2);
  if (line != kWelcome.substr(0, kWelcome.find('\n'))) {
    throw unreachable(path, cat("unexpected HTTP response: ", line));
  }
}

void Connection::wait(short events, Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  pollfd ready{fd_.get(), events, 0};
  const int count = left.count() > 0 ? ::poll(&ready, 1, static_cast<int>(left.count())) : 0;
  if (count < 0 && errno != EINTR) throw unreachable(path_, netlink::errno_text(errno));
  if (count == 0) throw unreachable(path_, "the daemon did not answer in time");
}

void Connection::send(std::string_view bytes, Clock::time_point end) {
  while (!bytes.empty()) {
    const ssize_t size = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {
      wait(POLLOUT, end);
    } else if (errno != EINTR) {
      throw unreachable(path_, cat("write: ", netlink::errno_text(errno)));
    }
  }
}

void Connection::receive(Clock::time_point end) {
  char buffer[4096];
  for (;;) {
    const ssize_t size = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (size > 0) {
      received_.append(buffer, static_cast<std::size_t>(size));
      return;
    }
    if (size == 0) throw unreachable(path_, "the daemon closed the connection");
    if (errno == EAGAIN) {
      wait(POLLIN, end);
    } else if (errno != EINTR) {
      throw unreachable(path_, cat("read: ", netlink::errno_text(errno)));
    }
  }
}

gob::Value Connection::call(const Call& call, Clock::duration limit) try {
  const auto end = Clock::now() + limit;
  send(encode(call), end);
  gob::Decoder decoder;
  std::vector<gob::Value> parts;  // header and body
  while (parts.size() < 2) {
    if (auto value = decoder.take(received_)) {
      parts.push_back(*std::move(value));
    } else {
      receive(end);
    }
  }
  const std::string& error = parts[0].field("Error").text;
  if (!error.empty()) throw refusal(call, error);
  return std::move(parts[1]);
} catch (const Error& e) {
  if (e.code() != Code::kPluginUnavailable) throw;
  throw Error(Code::kTryAgainLater, cat("error calling ", call.method, ": ", e.what()));
}

gob::Value call_daemon(const std::string& path, const Call& call,
                       Connection::Clock::duration limit) {
  return Connection(path).call(call, limit);
}

Call call_of(const cni::Request& request, std::string_view method) {
  // The daemon has another working directory.
  return {.method = std::string(method),
          .container_id = request.container_id,
          .netns = request.netns.empty() ? "" : std::filesystem::absolute(request.netns).string(),
          .ifname = request.ifname,
          .args = request.args,
          .path = std::string(cni::lookup(request.env, "CNI_PATH")),
          .input = request.input};
}

bool is_unknown_method(const Error& error) {
  return std::string_view(error.what()).find(kUnknownMethod) != std::string_view::npos;
}

}  // namespace dhcp

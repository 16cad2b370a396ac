#include "plugins/dhcp/plugin/call.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "libcni/common/unix_socket.h"

namespace dhcp {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;

Error unreachable(const std::string& path, std::string_view cause) {
  return {Code::kPluginUnavailable, cat("error dialing DHCP daemon: dial unix ", path, ": ", cause),
          "start the daemon: systemctl enable --now cni-dhcp.socket, or dhcp daemon"};
}

Error too_late(const std::string& path, std::string_view cause, std::string_view details) {
  return {
      Code::kTryAgainLater, cat("error dialing DHCP daemon: dial unix ", path, ": ", cause),
      cat(details, "; if it is stuck: systemctl restart cni-dhcp.service, which keeps the leases")};
}

// The daemon's error. The reference daemon ends with "no more tries" too if no server answered in
// time or none had an address; ours adds the reason.
Error refusal(const Call& call, const std::string& text) {
  constexpr std::string_view kLater = "no more tries";
  const std::string called = cat("error calling ", call.method, ": ");
  if (!text.starts_with(kLater)) return {Code::kInternal, cat(called, text)};
  return {Code::kTryAgainLater, cat(called, kLater),
          text.size() > kLater.size() + 2 ? text.substr(kLater.size() + 2) : ""};
}

}  // namespace

Connection::Connection(const std::string& path, Clock::duration limit)
    : Connection(path, Clock::now() + limit) {}

Connection::Connection(const std::string& path, Clock::time_point end)
    : Connection(path, cni::connect_to(path, end), end) {}

std::optional<Connection> Connection::find(const std::string& path, Clock::duration limit) {
  const auto end = Clock::now() + limit;
  netlink::Fd fd = cni::connect_to(path, end);
  // ENOENT: no file; ECONNREFUSED: that of a daemon that was killed.
  if (!fd && (errno == ENOENT || errno == ECONNREFUSED)) return std::nullopt;
  return Connection(path, std::move(fd), end);
}

Connection::Connection(const std::string& path, netlink::Fd fd, Clock::time_point end)
    : fd_(std::move(fd)), end_(end), path_(path) {
  if (!fd_) {
    const std::string cause = cat("connect: ", netlink::errno_text(errno));
    if (errno != EAGAIN) throw unreachable(path, cause);
    throw too_late(path, cause, "the daemon does not accept connections: its backlog is full");
  }
  send(kHello);
  std::size_t at = std::string::npos;
  while ((at = received_.find("\n\n")) == std::string::npos) receive();
  const std::string line = received_.substr(0, received_.find('\n'));
  received_.erase(0, at + 2);
  if (line != kWelcome.substr(0, kWelcome.find('\n'))) {
    throw unreachable(path, cat("unexpected HTTP response: ", line));
  }
}

void Connection::wait(short events) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now());
  pollfd ready{fd_.get(), events, 0};
  const int count = left.count() > 0 ? ::poll(&ready, 1, static_cast<int>(left.count())) : 0;
  if (count < 0 && errno != EINTR) throw unreachable(path_, netlink::errno_text(errno));
  if (count == 0) {
    throw too_late(path_, "the daemon did not answer in time", "the daemon is busy or stopped");
  }
}

void Connection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {
      wait(POLLOUT);
    } else if (errno != EINTR) {
      throw unreachable(path_, cat("write: ", netlink::errno_text(errno)));
    }
  }
}

void Connection::receive() {
  char buffer[4096];
  for (;;) {
    const ssize_t size = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (size > 0) {
      received_.append(buffer, static_cast<std::size_t>(size));
      return;
    }
    if (size == 0) throw unreachable(path_, "the daemon closed the connection");
    if (errno == EAGAIN) {
      wait(POLLIN);
    } else if (errno != EINTR) {
      throw unreachable(path_, cat("read: ", netlink::errno_text(errno)));
    }
  }
}

std::vector<gob::Value> Connection::exchange(const Call& call) try {
  send(encode(call));
  gob::Decoder decoder;
  std::vector<gob::Value> parts;
  while (parts.size() < 2) {
    if (auto value = decoder.take(received_)) {
      parts.push_back(*std::move(value));
    } else {
      receive();
    }
  }
  return parts;
} catch (const Error& e) {
  if (e.code() == Code::kDecodingFailure) throw;
  throw Error(Code::kTryAgainLater, cat("error calling ", call.method, ": ", e.what()),
              e.details());
}

gob::Value Connection::call(const Call& call) {
  std::vector<gob::Value> parts = exchange(call);
  answered_ = true;
  const std::string& error = parts[0].field("Error").text;
  if (!error.empty()) throw refusal(call, error);
  return std::move(parts[1]);
}

gob::Value call_daemon(const std::string& path, const Call& call,
                       Connection::Clock::duration limit) {
  return Connection(path, limit).call(call);
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

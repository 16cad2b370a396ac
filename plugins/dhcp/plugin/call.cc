#include "plugins/dhcp/plugin/call.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "libcni/daemon/unix_socket.h"

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

netlink::Fd require_connected(const std::string& path, netlink::Fd fd) {
  if (fd) return fd;
  const int error = errno;
  const std::string cause = cat("connect: ", netlink::errno_text(error));
  if (error != EAGAIN) throw unreachable(path, cause);
  throw too_late(path, cause, "the daemon does not accept connections: its backlog is full");
}

template <class Fn>
void reaching(const std::string& path, Fn&& fn) try {
  fn();
} catch (const netlink::Error& e) {
  if (e.error() == ECONNRESET) throw unreachable(path, "the daemon closed the connection");
  if (e.error() != ETIMEDOUT) throw unreachable(path, netlink::errno_text(e.error()));
  throw too_late(path, "the daemon did not answer in time", "the daemon is busy or stopped");
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
    : Connection(path, cni::connect_to(path, Clock::now() + limit), Clock::now() + limit) {}

std::optional<Connection> Connection::find(const std::string& path, Clock::duration limit) {
  const auto end = Clock::now() + limit;
  netlink::Fd fd = cni::connect_to(path, end);
  // ENOENT: no file; ECONNREFUSED: that of a daemon that was killed.
  if (!fd && (errno == ENOENT || errno == ECONNREFUSED)) return std::nullopt;
  return Connection(path, std::move(fd), end);
}

Connection::Connection(const std::string& path, netlink::Fd fd, Clock::time_point end)
    : client_(path, require_connected(path, std::move(fd)), end), path_(path) {
  reaching(path_, [this] {
    client_.send(kHello);
    while (received_.find("\n\n") == received_.npos) client_.receive(received_);
  });
  const std::string line = received_.substr(0, received_.find('\n'));
  received_.erase(0, received_.find("\n\n") + 2);
  if (line != kWelcome.substr(0, kWelcome.find('\n'))) {
    throw unreachable(path, cat("unexpected HTTP response: ", line));
  }
}

std::vector<gob::Value> Connection::exchange(const Call& call) try {
  gob::Decoder decoder;
  std::vector<gob::Value> parts;
  reaching(path_, [&] { client_.send(encode(call)); });
  while (parts.size() < 2) {
    if (auto value = decoder.take(received_)) {
      parts.push_back(*std::move(value));
    } else {
      reaching(path_, [&] { client_.receive(received_); });
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

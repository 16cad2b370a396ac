#include "plugins/dhcp/daemon/server.h"

#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/daemon/unix_socket.h"
#include "plugins/dhcp/daemon/daemon_lock.h"

namespace dhcp {

namespace {

using cni::cat;
using netlink::Fd;

constexpr std::size_t kMaxConnections = 1024, kMaxHello = 4096;
constexpr cni::BootTime kIdleLimit =
    std::chrono::seconds(10);  // with a client that waits for nothing
constexpr std::string_view kRefusal =
    "HTTP/1.0 405 Method Not Allowed\nContent-Type: text/plain; charset=utf-8\n\n405 must "
    "CONNECT\n";

// One that takes no lock: the reference plugins' daemon, or one of an earlier release.
void require_unserved(const std::string& path) {
  const Fd probe = cni::connect_to(path, std::chrono::steady_clock::now());
  if (!probe && errno != EAGAIN) return;  // EAGAIN: its backlog is full
  const pid_t pid = probe ? cni::peer_of(probe.get()).pid : 0;
  throw cni::Error(cni::Code::kInternal,
                   cat("listen on '", path, "': another daemon serves this socket",
                       pid > 0 ? cat(": process ", pid) : std::string()));
}

}  // namespace

Listening open_listener(const std::string& path) {
  if (auto passed = cni::Listener::passed()) return {.listener = *std::move(passed)};
  return listen_on(path);
}

Listening listen_on(const std::string& path) {
  cni::socket_address(path);  // before a file is made
  Fd lock = lock_for_daemon(path, "listen on");
  require_unserved(path);
  return {.listener = cni::Listener(path), .lock = std::move(lock)};
}

struct Server::Connection {
  Fd fd;
  bool greeted = false;
  std::string in = {}, out = {};
  gob::Decoder decoder = {};
  AnswerEncoder encoder = {};
  std::optional<gob::Value> header = {};  ///< of the call whose body is not there yet
  bool ending = false;                    ///< when out is sent
  unsigned unanswered = 0;                ///< calls
};

Server::Server(EventLoop& loop, Listening listening, OnCall on_call, OnClose on_close,
               OnLost on_lost)
    : loop_(loop),
      on_call_(std::move(on_call)),
      on_close_(std::move(on_close)),
      lock_(std::move(listening.lock)),
      acceptor_(loop, std::move(listening.listener),
                {.accepted = [this](Fd fd) { take(std::move(fd)); },
                 .again =
                     [this](const std::string& path) {
                       lock_.reset();  // it may be that of the path still
                       Listening again = listen_on(path);
                       lock_ = std::move(again.lock);
                       return std::move(again.listener);
                     },
                 .lost = std::move(on_lost)}) {}

Server::~Server() {
  while (!connections_.empty()) close(connections_.begin()->first, false);
}

void Server::take(Fd fd) {
  if (connections_.size() >= kMaxConnections) return;
  const std::uint64_t id = next_++;
  auto connection = std::make_unique<Connection>(Connection{.fd = std::move(fd)});
  loop_.watch(connection->fd.get(), [this, id] { serve(id); });
  limit(id, *connection);
  connections_.emplace(id, std::move(connection));
}

// A peer that neither calls, nor waits for an answer, nor hangs up, must not use up connections.
void Server::limit(std::uint64_t id, Connection& connection) {
  loop_.after(kIdleLimit, &connection, [this, id] { close(id, true); });
}

bool Server::read(Connection& connection) {
  char buffer[16384];
  for (;;) {
    const ssize_t size = ::recv(connection.fd.get(), buffer, sizeof buffer, 0);
    if (size > 0) {
      connection.in.append(buffer, static_cast<std::size_t>(size));
      if (connection.in.size() > 2 * gob::Decoder::kMaxMessage) return false;
      continue;
    }
    if (size < 0 && errno == EINTR) continue;
    return size < 0 && errno == EAGAIN;
  }
}

bool Server::greet(Connection& connection) {
  std::string& in = connection.in;
  const auto end = in.find("\n\n");
  const auto other_end = in.find("\r\n\r\n");
  if (end == std::string::npos && other_end == std::string::npos) {
    return in.size() <= kMaxHello;
  }
  const bool connects = in.starts_with("CONNECT ");
  in.erase(0, end < other_end ? end + 2 : other_end + 4);
  connection.greeted = connects;
  connection.ending = !connects;
  connection.out += connects ? kWelcome : kRefusal;
  return true;
}

void Server::serve(std::uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  const bool open = read(connection);
  try {
    if (!connection.greeted && !connection.ending && !greet(connection)) return close(id, true);
    if (connection.greeted) take_calls(id);
  } catch (const cni::Error& e) {
    cni::note(e.what());
    return close(id, true);
  }
  if (!open) return close(id, true);
  flush(id);
}

void Server::take_calls(std::uint64_t id) {
  for (;;) {
    const auto found = connections_.find(id);  // a call may end it
    if (found == connections_.end()) return;
    Connection& connection = *found->second;
    auto value = connection.decoder.take(connection.in);
    if (!value) return;
    if (!connection.header) {
      connection.header = std::move(value);
      continue;
    }
    const Call call = call_from(*connection.header, *value);
    connection.header.reset();
    ++connection.unanswered;
    loop_.at(cni::kNever, &connection, {});
    on_call_({id, call});
  }
}

void Server::close(std::uint64_t id, bool tell) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  loop_.at(cni::kNever, found->second.get(), {});
  loop_.forget(found->second->fd.get());
  connections_.erase(found);
  if (tell) on_close_(id);
}

void Server::flush(std::uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  std::string& out = connection.out;
  while (!out.empty()) {
    const ssize_t size = ::send(connection.fd.get(), out.data(), out.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) break;
    if (size < 0) return close(id, true);
    out.erase(0, static_cast<std::size_t>(size));
  }
  if (out.empty() && connection.ending) return close(id, false);
  loop_.watch(
      connection.fd.get(), [this, id] { serve(id); }, out.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

AnswerEncoder* Server::encoder(const Asked& asked) {
  const auto found = connections_.find(asked.connection);
  return found == connections_.end() ? nullptr : &found->second->encoder;
}

void Server::send(std::uint64_t id, const std::string& bytes) {
  Connection& connection = *connections_.at(id);
  connection.out += bytes;
  if (--connection.unanswered == 0) limit(id, connection);
  flush(id);
}

void Server::answer(const Asked& asked, const cni::Result& result) {
  if (auto* const out = encoder(asked)) send(asked.connection, out->result(asked.call, result));
}

void Server::answer_text(const Asked& asked, std::string_view text) {
  if (auto* const out = encoder(asked)) send(asked.connection, out->text(asked.call, text));
}

void Server::answer_nothing(const Asked& asked) {
  if (auto* const out = encoder(asked)) send(asked.connection, out->nothing(asked.call));
}

void Server::answer_error(const Asked& asked, std::string_view error) {
  if (auto* const out = encoder(asked)) send(asked.connection, out->error(asked.call, error));
}

}  // namespace dhcp

#include "plugins/dhcp/daemon/server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/common/unix_socket.h"
#include "plugins/dhcp/daemon/daemon_lock.h"

namespace dhcp {

namespace {

using cni::cat;
using netlink::Fd;

constexpr std::size_t kMaxConnections = 1024, kMaxHello = 4096;
constexpr Time kIdleLimit = std::chrono::seconds(10);  // with a client that waits for nothing
constexpr std::string_view kRefusal =
    "HTTP/1.0 405 Method Not Allowed\nContent-Type: text/plain; charset=utf-8\n\n405 must "
    "CONNECT\n";

long number_in(const char* variable) {
  const char* const text = ::getenv(variable);
  if (text == nullptr) return 0;
  long out = 0;
  std::from_chars(text, text + std::strlen(text), out);
  return out;
}

// sd_listen_fds(3): one descriptor, number 3.
Fd passed_listener() {
  constexpr int kFirst = 3;
  if (number_in("LISTEN_PID") != ::getpid()) return Fd();
  const long count = number_in("LISTEN_FDS");
  if (count > 1) {
    throw cni::Error(cni::Code::kInvalidEnvironment,
                     cat("Too many (", count, ") FDs passed through socket activation"));
  }
  if (count != 1) return Fd();
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(kFirst, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) {
    throw cni::Error(cni::Code::kInvalidEnvironment, "LISTEN_FDS=1 but no FD found");
  }
  ::fcntl(kFirst, F_SETFL, ::fcntl(kFirst, F_GETFL) | O_NONBLOCK);
  return Fd(::fcntl(kFirst, F_DUPFD_CLOEXEC, kFirst));
}

// A daemon that takes no lock: the reference plugins', or one of an earlier release.
void remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return;
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool connected =
      ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (connected || errno == EAGAIN) {  // EAGAIN: its backlog is full
    const pid_t pid = connected ? cni::peer_of(probe.get()).pid : 0;
    throw cni::Error(cni::Code::kInternal,
                     cat("listen on '", path, "': another daemon serves this socket",
                         pid > 0 ? cat(": process ", pid) : std::string()));
  }
  ::unlink(path.c_str());
}

// Empty for an abstract socket.
std::string path_of(const Fd& listener) {
  sockaddr_un address{};
  socklen_t size = sizeof address - 1;  // the path may fill its place
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return address.sun_path;
}

}  // namespace

bool Listener::is_lost() const { return !path.empty() && cni::is_lost_socket(path, inode); }

void Listener::remove() const noexcept {
  if (is_ours && cni::inode_at(path) == inode) ::unlink(path.c_str());
}

Listener open_listener(const std::string& path) {
  Fd passed = passed_listener();
  if (!passed) return listen_on(path);
  const std::string at = path_of(passed);
  return {.fd = std::move(passed), .path = at, .inode = cni::inode_at(at)};
}

Listener listen_on(const std::string& path) {
  const sockaddr_un address = cni::socket_address(path);  // before a file is made
  Fd lock = lock_for_daemon(path, "listen on");
  remove_stale(path, address);
  Fd fd = cni::listen_at(path);
  return {.fd = std::move(fd),
          .path = path,
          .inode = cni::inode_at(path),
          .lock = std::move(lock),
          .is_ours = true};
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

Server::Server(EventLoop& loop, Fd listener, OnCall on_call, OnClose on_close)
    : loop_(loop),
      listener_(std::move(listener)),
      on_call_(std::move(on_call)),
      on_close_(std::move(on_close)) {
  loop_.watch(listener_.get(), [this] { accept(); });
}

Server::~Server() {
  loop_.at(kNever, &listener_, {});
  loop_.forget(listener_.get());
  while (!connections_.empty()) close(connections_.begin()->first, false);
}

void Server::replace_listener(Fd listener) {
  loop_.at(kNever, &listener_, {});
  loop_.forget(listener_.get());
  listener_ = std::move(listener);
  loop_.watch(listener_.get(), [this] { accept(); });
}

// Many at once: a plugin does not wait long for the welcome.
void Server::accept() {
  constexpr int kMaxAccepted = 64;
  for (int i = 0; i < kMaxAccepted && accept_one(); ++i) {
  }
}

bool Server::accept_one() {
  Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
    // It would be called again at once.
    cni::note(cat("dhcp: accept a connection: ", netlink::errno_text(errno)));
    loop_.forget(listener_.get());
    loop_.at(EventLoop::now() + std::chrono::seconds(1), &listener_,
             [this] { loop_.watch(listener_.get(), [this] { accept(); }); });
  }
  if (!fd) return false;
  if (connections_.size() >= kMaxConnections) return true;
  if (!cni::has_trusted_peer(fd.get())) {
    cni::note("dhcp: refused a connection that is not root's");
    return true;
  }
  const std::uint64_t id = next_++;
  auto connection = std::make_unique<Connection>(Connection{.fd = std::move(fd)});
  loop_.watch(connection->fd.get(), [this, id] { serve(id); });
  limit(id, *connection);
  connections_.emplace(id, std::move(connection));
  return true;
}

// A peer that neither calls, nor waits for an answer, nor hangs up, must not use up connections.
void Server::limit(std::uint64_t id, Connection& connection) {
  loop_.at(EventLoop::now() + kIdleLimit, &connection, [this, id] { close(id, true); });
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
    cni::note(cat("dhcp: ", e.what()));
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
    loop_.at(kNever, &connection, {});
    on_call_({id, call});
  }
}

void Server::close(std::uint64_t id, bool tell) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  loop_.at(kNever, found->second.get(), {});
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
      connection.fd.get(), [this, id] { serve(id); }, !out.empty());
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

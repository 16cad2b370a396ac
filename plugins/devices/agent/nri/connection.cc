#include "plugins/devices/agent/nri/connection.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/inotify.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/daemon/unix_socket.h"
#include "plugins/devices/agent/log.h"

namespace devices::nri {

namespace {

using cni::cat;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{100}, kLastPause{30'000};
// A connection that lasted this long was a good one: the next attempt comes soon.
constexpr milliseconds kGood{10'000};
// The runtime registers plugins one after another, and gives each 5 s.
constexpr milliseconds kRegistrationLimit{30'000};
// Of a message, from its first byte to its last one; and of what we send.
constexpr milliseconds kProgress{10'000};
constexpr std::size_t kMaxUnsent = std::size_t{16} << 20;

// The folders from that of the path up to the root.
std::vector<std::string> folders_of(std::string path) {
  std::vector<std::string> out;
  while (path.size() > 1) {
    path.resize(std::max<std::size_t>(path.rfind('/'), 1));
    if (path != out.emplace_back(path)) break;
    if (path == "/") break;
  }
  return out;
}

}  // namespace

Connection::Connection(cni::EventLoop& loop, Peer peer, Identity identity, Plugin plugin)
    : loop_(loop),
      path_(std::move(peer.socket)),
      is_passed_(peer.passed),
      identity_(std::move(identity)),
      folders_(IN_CREATE | IN_MOVED_TO),
      pause_(kFirstPause) {
  listen_to(std::move(plugin));
  if (is_passed_) {
    const int flags = ::fcntl(peer.passed.get(), F_GETFL);
    ::fcntl(peer.passed.get(), F_SETFL, flags | O_NONBLOCK);
    ::fcntl(peer.passed.get(), F_SETFD, FD_CLOEXEC);
    begin(std::move(peer.passed));
    return;
  }
  cni::socket_address(path_);
  if (folders_.fd() >= 0) loop_.watch(folders_.fd(), [this] { look(); });
  connect();
}

Connection::~Connection() {
  if (fd_) loop_.forget(fd_.get());
  if (folders_.fd() >= 0) loop_.forget(folders_.fd());
  for (const char* const owner : {&retry_, &deadline_}) loop_.at(cni::kNever, owner, {});
}

void Connection::listen_to(Plugin plugin) {
  plugin_ = plugin;
  const auto heard = std::make_shared<const Plugin>(std::move(plugin));
  plugin_.synchronized = [this, heard](std::vector<Sandbox> listed) {
    loop_.post([heard, all = std::move(listed)]() mutable {
      if (heard->synchronized) heard->synchronized(std::move(all));
      all = {};
      ::malloc_trim(0);  // the list of all containers of a node has megabytes
    });
  };
  plugin_.happened = [this, heard](Event event, const Sandbox& sandbox, const Container* about) {
    std::optional<Container> container;
    if (about != nullptr) container = *about;
    loop_.post([heard, event, sandbox, container] {
      if (heard->happened) heard->happened(event, sandbox, container ? &*container : nullptr);
    });
  };
}

// The watch comes before the attempt: a socket that is made in between is noticed.
void Connection::connect() {
  const bool is_watched = watch_folders();
  netlink::Fd fd = cni::connect_to(path_, std::chrono::steady_clock::now());
  if (fd && cni::has_trusted_peer(fd.get())) return begin(std::move(fd));
  const int error = fd ? EPERM : errno;
  report(cat("connect to '", path_, "': ", netlink::errno_text(error)));
  if (error == ENOENT && is_watched) return;
  retry_in(error == ENOENT ? kLastPause : pause_);
}

// Whether the appearance of the socket or of its folder is reported. Those that exist are watched:
// a folder that is made anew is one more.
bool Connection::watch_folders() {
  for (const std::string& folder : folders_of(path_)) {
    if (folders_.add(folder)) return true;
    if (errno != ENOENT) return false;
  }
  return false;
}

// Many names come and go in /run: those that lead to the socket are of interest. A new runtime is
// not to wait for what the former one did: its socket appears a moment before it listens.
void Connection::look() {
  const auto names = folders_.take();
  const bool is_near = !names || std::ranges::any_of(*names, [&](const std::string& name) {
    return cat(path_, "/").find(cat("/", name, "/")) != std::string::npos;
  });
  if (!is_near) return;
  pause_ = kFirstPause;
  if (!fd_) connect();
}

void Connection::begin(netlink::Fd fd) {
  loop_.at(cni::kNever, &retry_, {});
  fd_ = std::move(fd);
  since_ = cni::EventLoop::now();
  session_.emplace(identity_, plugin_);
  loop_.after(kRegistrationLimit, &deadline_, [this] { fail("the runtime does not register it"); });
  was_partial_ = false;
  flush();
}

void Connection::on_ready() {
  try {
    read();
    if (fd_) flush();
    if (fd_) check_progress();
  } catch (const std::exception& e) {
    fail(e.what());
  }
}

// One piece: others of the loop have their turn.
void Connection::read() {
  char buffer[65536];
  const ssize_t size = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size < 0) return fail(netlink::errno_text(errno));
  if (size == 0) return fail("the runtime closed the connection");
  const bool was_synchronized = session_->is_synchronized();
  session_->receive({buffer, static_cast<std::size_t>(size)});
  if (was_synchronized || !session_->is_synchronized()) return;
  loop_.at(cni::kNever, &deadline_, {});
  last_error_.clear();
  log(Level::kInfo, "register at the container runtime (NRI)");
}

void Connection::flush() {
  out_ += session_->take();
  while (!out_.empty()) {
    const ssize_t size = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size > 0) {
      out_.erase(0, static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      return fail(netlink::errno_text(errno));
    }
  }
  if (out_.size() > kMaxUnsent) return fail("the runtime does not read answers");
  const std::uint32_t events = out_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
  loop_.watch(
      fd_.get(), [this] { on_ready(); }, events);
}

// Silence between messages is usual, and within one is not. Of a busy runtime a part of the next
// call has always come.
void Connection::check_progress() {
  if (!session_->is_synchronized()) return;  // which has a limit of its own
  const bool is_partial = session_->is_partial() || !out_.empty();
  const bool is_next = std::exchange(calls_, session_->calls()) != calls_ && out_.empty();
  if (std::exchange(was_partial_, is_partial) == is_partial && !(is_partial && is_next)) return;
  if (!is_partial) {
    ::malloc_trim(0);  // one that came in pieces may have had megabytes
    return loop_.at(cni::kNever, &deadline_, {});
  }
  loop_.after(kProgress, &deadline_, [this] { fail("the runtime stopped within a message"); });
}

void Connection::fail(const std::string& why) {
  report(cat("speak with '", path_, "': ", why));
  const bool was_good = session_->is_synchronized() && cni::EventLoop::now() - since_ >= kGood;
  loop_.forget(fd_.get());
  loop_.at(cni::kNever, &deadline_, {});
  fd_.reset();
  session_.reset();
  std::string().swap(out_);
  if (is_passed_) return loop_.stop();
  if (was_good) pause_ = kFirstPause;
  retry_in(pause_);
}

void Connection::retry_in(milliseconds pause) {
  loop_.after(pause, &retry_, [this] { connect(); });
  pause_ = std::min(2 * pause_, kLastPause);
}

// A runtime that is away for hours is one line of the log.
void Connection::report(const std::string& why) {
  if (std::exchange(last_error_, why) == why) return;
  log(Level::kWarning, "see pods by NRI", {.error = why});
}

}  // namespace devices::nri

#include "libcni/daemon/listener.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/daemon/unix_socket.h"

namespace cni {

namespace {

using netlink::Fd;

ino_t inode_at(const std::string& path) noexcept {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

// The mode of the file is that of the descriptor (unix_bind_bsd() in net/unix/af_unix.c): there is
// no moment in which others can connect, and no umask, which all threads share.
Fd listen_at(const std::string& path) {
  const sockaddr_un address = socket_address(path);
  Fd out(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool listens =
      out && ::fchmod(out.get(), 0600) == 0 &&
      ::bind(out.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(out.get(), SOMAXCONN) == 0;
  if (!listens) throw netlink::Error(cat("listen on '", path, "'"), errno);
  return out;
}

Fd listen_in_place_of(const std::string& path) {
  socket_address(path);  // before a folder is made
  Dir::create(path.substr(0, path.rfind('/')));
  const std::string aside = cat(path, ".", ::getpid());
  ::unlink(aside.c_str());  // of a process with this number that was killed
  Fd out = listen_at(aside);
  if (::rename(aside.c_str(), path.c_str()) == 0) return out;
  const int error = errno;
  ::unlink(aside.c_str());
  throw netlink::Error(cat("listen on '", path, "'"), error);
}

long number_in(const char* variable) {
  const char* const text = ::getenv(variable);
  if (text == nullptr) return 0;
  long out = 0;
  std::from_chars(text, text + std::strlen(text), out);
  return out;
}

// Empty for an abstract socket.
std::string path_of(const Fd& listener) {
  sockaddr_un address{};
  socklen_t size = sizeof address - 1;  // the path may fill its place
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return address.sun_path;
}

}  // namespace

Listener::Listener(std::string path, Fd fd, bool is_own)
    : path_(std::move(path)), fd_(std::move(fd)), inode_(inode_at(path_)), is_own_(is_own) {}

Listener::Listener(const std::string& path) : Listener(path, listen_in_place_of(path), true) {}

std::optional<Listener> Listener::passed() {
  constexpr int kFirst = 3;
  if (number_in("LISTEN_PID") != ::getpid()) return std::nullopt;
  const long count = number_in("LISTEN_FDS");
  if (count > 1) {
    throw Error(Code::kInvalidEnvironment,
                cat("Too many (", count, ") FDs passed through socket activation"));
  }
  if (count != 1) return std::nullopt;
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(kFirst, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) {
    throw Error(Code::kInvalidEnvironment, "LISTEN_FDS=1 but no FD found");
  }
  ::fcntl(kFirst, F_SETFL, ::fcntl(kFirst, F_GETFL) | O_NONBLOCK);
  Fd fd(::fcntl(kFirst, F_DUPFD_CLOEXEC, kFirst));
  std::string path = path_of(fd);
  return Listener(std::move(path), std::move(fd), false);
}

Listener::~Listener() { remove(); }

Listener::Listener(Listener&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::move(other.fd_)),
      inode_(std::exchange(other.inode_, 0)),
      is_own_(std::exchange(other.is_own_, false)) {}

Listener& Listener::operator=(Listener&& other) noexcept {
  if (this == &other) return *this;
  if (path_ != other.path_) remove();  // else the other one took it over
  path_ = std::move(other.path_);
  fd_ = std::move(other.fd_);
  inode_ = std::exchange(other.inode_, 0);
  is_own_ = std::exchange(other.is_own_, false);
  return *this;
}

void Listener::remove() noexcept {
  if (is_own_ && inode_ != 0 && inode_at(path_) == inode_) ::unlink(path_.c_str());
}

bool Listener::is_lost() const {
  if (path_.empty()) return false;
  const ino_t now = inode_at(path_);
  return (now == 0 || now != inode_) && !has_listener(path_);
}

Fd Listener::accept() const {
  Fd out(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (out && !has_trusted_peer(out.get())) {
    out.reset();
    errno = EACCES;
  }
  return out;
}

bool Listener::is_short_of(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

bool has_listener(const std::string& path) {
  const Fd fd = connect_to(path, std::chrono::steady_clock::now());
  return fd || (errno != ECONNREFUSED && errno != ENOENT && errno != ENOTDIR);
}

}  // namespace cni

#include "libcni/common/unix_socket.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "libcni/common/error.h"

namespace cni {

sockaddr_un socket_address(const std::string& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  if (path.empty() || path.size() > kMaxSocketPath) {
    throw Error(Code::kInvalidConfig,
                cat("the socket path '", path, "' must have 1 to ", kMaxSocketPath, " bytes"));
  }
  std::copy(path.begin(), path.end(), out.sun_path);
  return out;
}

// If the backlog is full, connect(2) fails at once with EAGAIN, and poll(2) does not report when it
// would succeed (unix_stream_connect() in net/unix/af_unix.c).
netlink::Fd connect_to(const std::string& path, std::chrono::steady_clock::time_point end) {
  constexpr int kPauseMs = 20;
  const sockaddr_un address = socket_address(path);
  netlink::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  while (fd &&
         ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    if (error == EAGAIN && std::chrono::steady_clock::now() < end) {
      ::poll(nullptr, 0, kPauseMs);
      continue;
    }
    fd.reset();
    errno = error;
  }
  return fd;
}

bool has_listener(const std::string& path) {
  const netlink::Fd fd = connect_to(path, std::chrono::steady_clock::now());
  return fd || (errno != ECONNREFUSED && errno != ENOENT && errno != ENOTDIR);
}

// The mode of the file is that of the descriptor (unix_bind_bsd() in net/unix/af_unix.c): there is
// no moment in which others can connect, and no umask, which all threads share.
netlink::Fd listen_at(const std::string& path) {
  const sockaddr_un address = socket_address(path);
  netlink::Fd out(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool listens =
      out && ::fchmod(out.get(), 0600) == 0 &&
      ::bind(out.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(out.get(), SOMAXCONN) == 0;
  if (!listens) throw netlink::Error(cat("listen on '", path, "'"), errno);
  return out;
}

ino_t inode_at(const std::string& path) noexcept {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

bool is_lost_socket(const std::string& path, ino_t inode) {
  const ino_t now = inode_at(path);
  return (now == 0 || now != inode) && !has_listener(path);
}

ucred peer_of(int fd) {
  ucred out{.pid = 0, .uid = static_cast<uid_t>(-1), .gid = static_cast<gid_t>(-1)};
  socklen_t size = sizeof out;
  ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &out, &size);
  return out;
}

bool has_trusted_peer(int fd) {
  const uid_t uid = peer_of(fd).uid;
  return uid == 0 || uid == ::geteuid();
}

void notify_service_manager(std::string_view state) {
  const char* const path = ::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address = socket_address(path);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  const netlink::Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), size) < 0) {
    throw netlink::Error(cat("notify '", path, "'"), errno);
  }
}

}  // namespace cni

#include "libcni/daemon/unix_socket.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libcni/common/error.h"

namespace cni {

sockaddr_un socket_address(const std::string& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  if (path.empty() || path.size() > kMaxSocketPath) {
    throw Error(Code::kInvalidConfig,
                cat("the socket path '", path, "' must have 1 to ", kMaxSocketPath, " bytes"));
  }
  std::ranges::copy(path, out.sun_path);
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

}  // namespace cni

#include "libcni/daemon/service_manager.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/daemon/unix_socket.h"
#include "netlink/types/fd.h"

namespace cni {

namespace {

void send_to(const char* path, std::string_view state) {
  sockaddr_un address = socket_address(path);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  const netlink::Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), size) < 0) {
    throw netlink::Error(cat("notify '", path, "'"), errno);
  }
}

}  // namespace

void notify_service_manager(std::string_view state) noexcept try {
  const char* const path = ::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  send_to(path, state);
} catch (const std::exception& e) {
  note(cat("notify the service manager: ", e.what()));
}

}  // namespace cni

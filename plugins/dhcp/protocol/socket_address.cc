#include "plugins/dhcp/protocol/socket_address.h"

#include <sys/socket.h>

#include <algorithm>

#include "libcni/common/error.h"

namespace dhcp {

sockaddr_un socket_address(const std::string& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof out.sun_path) {
    throw cni::Error(cni::Code::kInvalidConfig,
                     cni::cat("the socket path '", path, "' must have 1 to ",
                              sizeof out.sun_path - 1, " bytes"));
  }
  std::copy(path.begin(), path.end(), out.sun_path);
  return out;
}

}  // namespace dhcp

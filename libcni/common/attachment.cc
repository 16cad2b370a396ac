#include "libcni/common/attachment.h"

#include "libcni/common/error.h"

namespace cni {

std::string AttachmentKey::str() const {
  return cat("interface '", ifname, "' of container '", container_id, "' in network '", network,
             "'");
}

std::string AttachmentKey::as_owner() const {
  return cat("container '", container_id, "' (network '", network, "', interface '", ifname, "')");
}

std::string AttachmentKey::file_name() const {
  if (network.empty() || container_id.empty() || ifname.empty()) {
    throw Error(Code::kInvalidEnvironment,
                cat("cache file path requires network name (\"", network, "\"), container ID (\"",
                    container_id, "\"), and interface name (\"", ifname, "\")"));
  }
  constexpr std::size_t kMaxName =
      255 - 5;  // NAME_MAX, and what Cache adds for a file that is being written
  std::string name = cat(network, "-", container_id, "-", ifname);
  if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos ||
      name.size() > kMaxName) {
    throw Error(Code::kInvalidEnvironment, cat("'", name, "' cannot be a file's name"),
                "network, container ID and interface together name a file of the results cache");
  }
  return name;
}

}  // namespace cni

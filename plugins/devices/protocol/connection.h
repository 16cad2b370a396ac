#pragma once

#include <sys/un.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "netlink/types/fd.h"

namespace devices {

inline constexpr std::size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;

/// A path as an address of unix(7). \throws cni::Error(kInvalidConfig) for one that is too long or
/// empty.
sockaddr_un socket_address(const std::string& path);

/// Sends a line to the socket at path and returns the line of the answer, without the newline.
/// \throws netlink::Error: ENOENT or ECONNREFUSED where nobody listens, ETIMEDOUT, ECONNRESET where
/// the connection ends before a newline, EMSGSIZE for more than kMaxAnswer.
std::string exchange(const std::string& path, const std::string& line,
                     std::chrono::steady_clock::duration limit);

}  // namespace devices

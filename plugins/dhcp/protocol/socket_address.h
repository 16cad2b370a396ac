#pragma once

#include <sys/un.h>

#include <string>

namespace dhcp {

/// A path as an address of unix(7). \throws cni::Error(kInvalidConfig) for one that is too long or
/// empty.
sockaddr_un socket_address(const std::string& path);

}  // namespace dhcp

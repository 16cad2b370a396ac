#pragma once

#include <string>
#include <string_view>

#include "netlink/types/fd.h"

namespace dhcp {

/// Takes the flock(2) on PATH.lock, so that no two daemons share a socket or a directory of leases;
/// held until the result is closed. use: "listen on", for the error. The directory is created.
/// \throws cni::Error naming the process that holds it; netlink::Error.
netlink::Fd lock_for_daemon(const std::string& path, std::string_view use);

}  // namespace dhcp

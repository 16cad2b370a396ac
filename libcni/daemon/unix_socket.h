#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <chrono>
#include <cstddef>
#include <string>

#include "netlink/types/fd.h"

/// Sockets of unix(7), between a plugin and its daemon.
namespace cni {

inline constexpr std::size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;  ///< bytes

/// The address of a path. \throws Error(kInvalidConfig) for a path that is too long or empty.
sockaddr_un socket_address(const std::string& path);

/// A connection to the socket at path, non-blocking. Empty if that fails, with errno: ENOENT
/// without a file, ECONNREFUSED if the process that made the file was killed, EAGAIN if the backlog
/// was full until end. \throws as socket_address().
netlink::Fd connect_to(const std::string& path, std::chrono::steady_clock::time_point end);

/// The process at the other end (SO_PEERCRED): of a socket that was connected to, the one that
/// listens. PID 0: unknown.
ucred peer_of(int fd);
/// Whether it belongs to root or to this user.
bool has_trusted_peer(int fd);

}  // namespace cni

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "netlink/message.h"
#include "netlink/types/ip.h"

/// Finds the owners of a port on this node: sock_diag(7), in the network namespace of the thread.
namespace netlink {

/// A socket that gets whatever comes to a port, from anybody.
struct Holder {
  Ip address;  ///< unspecified: all addresses
  std::uint16_t port = 0;
  std::uint64_t inode = 0;  ///< as in /proc/PID/fd: "socket:[INODE]"
  bool v6_only = false;     ///< of IPv6 sockets: not also those of IPv4
  bool operator==(const Holder&) const = default;
};

/// The answers to one question about sockets, datagram by datagram.
struct HolderDump {
  std::vector<Holder> holders;
  bool done = false;     ///< it is at its end
  bool unknown = false;  ///< the kernel does not know the question

  /// \throws Error where the kernel refuses it.
  void read(View datagram);
};

/// The sockets that hold a port for a family and a protocol (IPPROTO_*): those that listen, or for
/// UDP those that are bound and not connected. For IPv4 also those of :: that are not for IPv6
/// alone. None where the kernel cannot tell (no diagnosis of the protocol).
/// \throws Error.
std::vector<Holder> port_holders(Family family, int protocol, std::uint16_t port);

/// Whether a socket could have the port now, tried with bind(2), without an address for all of the
/// family: a cheap query before port_holders(), since true is certain. False may be due
/// to a connection. False only for EADDRINUSE: every other refusal is not about somebody who has
/// the port (a protocol the kernel has not, an address that is not here, a port that needs a
/// capability).
bool can_bind(Family family, int protocol, const std::optional<Ip>& address, std::uint16_t port);

}  // namespace netlink

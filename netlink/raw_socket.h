#pragma once

#include <cstdint>
#include <optional>

#include "netlink/netns.h"
#include "netlink/types/fd.h"
#include "netlink/types/ip.h"

/// Raw sockets (raw(7), ipv6(7)) that send probes, and receive no more than what answers them: a
/// filter of the kernel (linux/filter.h) sorts out a pod's other traffic.
namespace netlink {

/// For echo requests. Receives replies with that ID, and ICMP errors.
Fd open_echo_socket(const NetNs& where, Family family, std::uint16_t id);

/// For segments of TCP. Receives those that acknowledge that sequence number. Over IPv6 the kernel
/// computes the checksum.
Fd open_segment_socket(const NetNs& where, Family family, std::uint32_t acknowledged);

/// For IPv4 packets with their headers, which this sends alone, in one piece or not at all
/// (EMSGSIZE: the link is too small). \throws Error.
Fd open_packet_sender(const NetNs& where);

/// An ICMP error about a packet that a socket of UDP has sent: the kernel has compared addresses
/// and ports.
struct IcmpError {
  Ip from;
  std::uint8_t type = 0, code = 0;  ///< ICMP's, or ICMPv6's
};
/// Has the kernel keep them for take_error().
void report_errors(const Fd& fd, Family family);
/// The next one; empty: none.
std::optional<IcmpError> take_error(int fd);

}  // namespace netlink

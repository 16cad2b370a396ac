#pragma once

#include "netlink/types/fd.h"

namespace dhcp {

/// Closes a file descriptor in another thread. The kernel closes a packet socket only after a grace
/// period of RCU (packet_release() in net/packet/af_packet.c), some 10 ms in which the daemon would
/// serve nobody. Where no thread can be had, it is closed here.
void close_aside(netlink::Fd fd) noexcept;

}  // namespace dhcp

#pragma once

#include "netlink/types/fd.h"

namespace dhcp {

/// Closes a file descriptor in another thread. The kernel closes a packet socket only after a grace
/// period of RCU (packet_release() in net/packet/af_packet.c), some 10 ms in which the daemon would
/// serve nobody. Threads that close at once wait for one and the same grace period. Where no thread
/// can be had, it is closed here.
/// netlink::Channel::close_later() is for plugins, which have no threads and are about to end: it
/// leaves a socket to a worker of the kernel, which before Linux 6.9 is this process after all.
void close_aside(netlink::Fd fd) noexcept;

}  // namespace dhcp

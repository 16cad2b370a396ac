#include "netlink/route/link_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>

namespace netlink {

LinkWatch::LinkWatch() : channel_(NETLINK_ROUTE) {
  channel_.join({RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR});
}

void LinkWatch::drain() const noexcept {
  char scratch[8192];
  for (;;) {
    // An overflow (ENOBUFS) is reported once, before what is in the queue.
    const auto size = ::recv(channel_.fd(), scratch, sizeof scratch, MSG_DONTWAIT);
    if (size < 0 && errno != ENOBUFS && errno != EINTR) return;
    if (size == 0) return;
  }
}

}  // namespace netlink

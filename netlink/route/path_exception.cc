#include "netlink/route/path_exception.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>

#include "netlink/route/route.h"

namespace netlink {

bool has_path_exception(RouteSocket& socket, const Ip& destination) {
  if (destination.is_v4()) return false;
  bool out = false;
  // RTM_F_CLONED is of exceptions alone: rt6_fill_node() in net/ipv6/route.c.
  socket.ask(path_query(destination), [&](const Reply& reply) {
    if (reply.type() == RTM_NEWROUTE) out = (reply.fixed<rtmsg>().rtm_flags & RTM_F_CLONED) != 0;
  });
  return out;
}

RouteRequest remove_path_exception(const Ip& destination) {
  rtmsg head{};
  head.rtm_family = AF_INET6;
  head.rtm_dst_len = static_cast<unsigned char>(destination.bits());
  head.rtm_table = RT_TABLE_MAIN;
  head.rtm_flags = RTM_F_CLONED;
  Message message(RTM_DELROUTE, NLM_F_ACK, head);
  message.put(RTA_DST, destination);
  return {cat("forget the path to ", destination.str()), std::move(message), {ESRCH, ENOENT}};
}

}  // namespace netlink

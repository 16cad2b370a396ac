#include "netlink/route/neighbour.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>

#include "netlink/types/error.h"

namespace netlink {

RouteRequest correct_neighbour(const Link& link, const Ip& ip, const Mac& mac) {
  ndmsg head{};
  head.ndm_family = ip.is_v4() ? AF_INET : AF_INET6;
  head.ndm_ifindex = link.index;
  head.ndm_state = NUD_STALE;  // known, to be confirmed when used
  Message message(RTM_NEWNEIGH, NLM_F_REPLACE | NLM_F_ACK, head);
  message.put(NDA_DST, ip);
  message.put(NDA_LLADDR, mac.bytes);
  return {
      cat("correct neighbour ", ip.str(), " on '", link.name, "'"), std::move(message), {ENOENT}};
}

}  // namespace netlink

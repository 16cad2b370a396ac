#include "netlink/route/link_move.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include <cstdint>

#include "netlink/types/error.h"

namespace netlink {

RouteRequest move_link(const Link& link, const LinkMove& move) {
  ifinfomsg head{};
  head.ifi_index = link.index;
  Message message(RTM_SETLINK, NLM_F_ACK, head);
  message.put_u32(IFLA_NET_NS_FD, static_cast<std::uint32_t>(move.to.fd()));
  message.put(IFLA_IFNAME, move.name);
  if (move.index != 0) message.put_struct(IFLA_NEW_IFINDEX, std::int32_t{move.index});
  if (move.alias) message.put(IFLA_IFALIAS, *move.alias);
  return {cat("move '", link.name, "' to another network namespace as '", move.name, "'"),
          std::move(message),
          {},
          move.to};
}

}  // namespace netlink

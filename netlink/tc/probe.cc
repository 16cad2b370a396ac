#include "netlink/tc/probe.h"

#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include <cerrno>

#include "netlink/tc/handle.h"
#include "netlink/types/error.h"

namespace netlink::tc {

namespace {

constexpr int kLoopback = 1;  // LOOPBACK_IFINDEX of the kernel: the same in every namespace

// Every probe is made so that it is refused: with ENOENT where the kind is unknown, and in another
// way where that was found but what follows makes no sense.
bool is_known(RouteSocket& socket, std::string_view kind, Message message) {
  const std::string operation = cat("ask for traffic control of kind '", kind, "'");
  try {
    socket.send(RouteRequest{operation, std::move(message)});
  } catch (const Error& e) {
    if (e.error() == ENOENT) return false;
    if (e.error() == EINVAL || e.error() == EOPNOTSUPP)
      return true;  // "not there" of older ingress
    throw;
  }
  throw Error(operation, EPROTO);
}

}  // namespace

bool knows_qdisc(RouteSocket& socket, std::string_view kind) {
  tcmsg head{};
  head.tcm_ifindex = kLoopback;
  head.tcm_parent = static_cast<std::uint32_t>(kRoot);
  head.tcm_handle = static_cast<std::uint32_t>(handle(0x7AFE));
  Message message(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, head);
  message.put(TCA_KIND, kind);
  // A size table without a size: qdisc_create() in net/sched/sch_api.c looks at it last, before the
  // new qdisc takes its place.
  message.nest(TCA_STAB, [&] { message.put_u16(TCA_STAB_DATA, 0); });
  return is_known(socket, kind, std::move(message));
}

bool knows_action(RouteSocket& socket, std::string_view kind) {
  Message message(RTM_NEWACTION, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, tcamsg{});
  message.nest(TCA_ACT_TAB, [&] { message.nest(1, [&] { message.put(TCA_ACT_KIND, kind); }); });
  return is_known(socket, kind, std::move(message));
}

}  // namespace netlink::tc

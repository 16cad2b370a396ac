#include "netlink/tc/list.h"

#include <linux/rtnetlink.h>

#include <cerrno>

#include "netlink/types/error.h"

namespace netlink::tc {

namespace {

tcmsg head_of(const Link& link, Handle parent) {
  tcmsg head{};
  head.tcm_ifindex = link.index;
  head.tcm_parent = static_cast<std::uint32_t>(parent);
  return head;
}

}  // namespace

std::optional<QdiscState> qdisc(RouteSocket& socket, const Link& link, Handle parent) {
  // The kernel answers only if an echo is requested; a qdisc that is not shown has only the
  // acknowledgement (qdisc_get_notify() in net/sched/sch_api.c).
  const RouteRequest request{cat("look up the qdisc of '", link.name, "'"),
                             Message(RTM_GETQDISC, NLM_F_ECHO | NLM_F_ACK, head_of(link, parent)),
                             {ENOENT}};
  std::optional<QdiscState> out;
  socket.ask(request, [&out](const Reply& reply) {
    if (reply.type() != RTM_NEWQDISC) return;
    QdiscState state = decode_qdisc(reply);
    if (state.handle != kNone) out = std::move(state);
  });
  return out;
}

std::vector<FilterState> filters(RouteSocket& socket, const Link& link, Handle parent) {
  std::vector<FilterState> out;
  const Message message(RTM_GETTFILTER, 0, head_of(link, parent));
  socket.dump("list filters", message, [&out](const Reply& reply) {
    if (reply.type() != RTM_NEWTFILTER) return;
    if (auto filter = decode_filter(reply)) out.push_back(std::move(*filter));
  });
  return out;
}

std::vector<HtbClass> htb_classes(RouteSocket& socket, const Link& link) {
  std::vector<HtbClass> out;
  const Message message(RTM_GETTCLASS, 0, head_of(link, kNone));
  socket.dump("list classes", message, [&out](const Reply& reply) {
    if (reply.type() != RTM_NEWTCLASS) return;
    if (const auto found = decode_htb_class(reply)) out.push_back(*found);
  });
  return out;
}

}  // namespace netlink::tc

#include "netlink/tc/htb_class.h"

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>

#include "netlink/tc/ticks.h"
#include "netlink/types/error.h"

namespace netlink::tc {

namespace {

tcmsg head_of(const Link& link, const HtbClass& wanted) {
  tcmsg head{};
  head.tcm_ifindex = link.index;
  head.tcm_parent = static_cast<std::uint32_t>(wanted.parent);
  head.tcm_handle = static_cast<std::uint32_t>(wanted.id);
  return head;
}

tc_ratespec rate_of(std::uint64_t bytes) {
  tc_ratespec out{};
  out.rate = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, kMax32));
  out.linklayer = TC_LINKLAYER_ETHERNET;  // a link layer of 0 asks for a rate table
  return out;
}

// The quantum that the kernel would choose (with the factor 10 of Htb), without a warning in its
// log.
std::uint32_t quantum_of(std::uint64_t rate) {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(rate / 10, 1000, 200000));
}

}  // namespace

RouteRequest replace(const Link& link, const HtbClass& wanted) {
  tc_htb_opt parameters{};
  parameters.rate = rate_of(wanted.rate);
  parameters.ceil = rate_of(wanted.ceil);
  parameters.buffer = wanted.buffer;
  parameters.cbuffer = wanted.cbuffer;
  parameters.quantum = quantum_of(wanted.rate);
  Message message(RTM_NEWTCLASS, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, head_of(link, wanted));
  message.put(TCA_KIND, "htb");
  message.nest(TCA_OPTIONS, [&] {
    message.put_struct(TCA_HTB_PARMS, parameters);
    if (wanted.rate > kMax32) message.put_u64(TCA_HTB_RATE64, wanted.rate);
    if (wanted.ceil > kMax32) message.put_u64(TCA_HTB_CEIL64, wanted.ceil);
  });
  return {cat("replace class ", str(wanted.id), " of '", link.name, "'"), std::move(message)};
}

RouteRequest remove(const Link& link, const HtbClass& wanted) {
  // EINVAL is a link whose root qdisc has another handle (tc_ctl_tclass() in net/sched/sch_api.c).
  return {cat("remove class ", str(wanted.id), " of '", link.name, "'"),
          Message(RTM_DELTCLASS, NLM_F_ACK, head_of(link, wanted)),
          {ENOENT, EINVAL, ENODEV}};
}

std::optional<HtbClass> decode_htb_class(const Reply& reply) {
  const auto head = reply.fixed<tcmsg>();
  const Attributes attributes = reply.attributes(sizeof head);
  if (attributes.find(TCA_KIND).text() != "htb") return std::nullopt;
  const Attributes options = attributes.nested(TCA_OPTIONS);
  const auto parameters = options.find(TCA_HTB_PARMS).as<tc_htb_opt>();
  const std::uint64_t rate = options.find(TCA_HTB_RATE64).u64();
  const std::uint64_t ceil = options.find(TCA_HTB_CEIL64).u64();
  return HtbClass{.parent = Handle{head.tcm_parent},
                  .id = Handle{head.tcm_handle},
                  .rate = rate != 0 ? rate : parameters.rate.rate,
                  .ceil = ceil != 0 ? ceil : parameters.ceil.rate,
                  .buffer = parameters.buffer,
                  .cbuffer = parameters.cbuffer};
}

}  // namespace netlink::tc

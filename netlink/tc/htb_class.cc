#include "netlink/tc/htb_class.h"

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "netlink/types/error.h"

namespace netlink::tc {

namespace {

constexpr std::uint32_t kMost32 = std::numeric_limits<std::uint32_t>::max();

tcmsg head_of(const Link& link, const HtbClass& wanted) {
  tcmsg head{};
  head.tcm_ifindex = link.index;
  head.tcm_parent = static_cast<std::uint32_t>(wanted.parent);
  head.tcm_handle = static_cast<std::uint32_t>(wanted.id);
  return head;
}

tc_ratespec rate_of(std::uint64_t bytes) {
  tc_ratespec out{};
  out.rate = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, kMost32));
  out.linklayer = TC_LINKLAYER_ETHERNET;  // a link layer of 0 asks for a rate table
  return out;
}

// What the kernel would choose (with the factor 10 of Htb), but then without a warning in its log.
std::uint32_t quantum_of(std::uint64_t rate) {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(rate / 10, 1000, 200000));
}

std::uint64_t read_u64(const void* data, std::size_t size) {
  std::uint64_t out = 0;
  if (size >= sizeof out) std::memcpy(&out, data, sizeof out);
  return out;
}

void decode_options(HtbClass& out, const void* data, std::size_t size) {
  std::uint64_t rate64 = 0, ceil64 = 0;
  nested(data, size, [&](std::uint16_t type, const void* value, std::size_t length) {
    tc_htb_opt parameters;
    if (type == TCA_HTB_PARMS && length >= sizeof parameters) {
      std::memcpy(&parameters, value, sizeof parameters);
      out.rate = parameters.rate.rate;
      out.ceil = parameters.ceil.rate;
      out.buffer = parameters.buffer;
      out.cbuffer = parameters.cbuffer;
    }
    if (type == TCA_HTB_RATE64) rate64 = read_u64(value, length);
    if (type == TCA_HTB_CEIL64) ceil64 = read_u64(value, length);
  });
  if (rate64 != 0) out.rate = rate64;
  if (ceil64 != 0) out.ceil = ceil64;
}

}  // namespace

Request replace(const Link& link, const HtbClass& wanted) {
  tc_htb_opt parameters{};
  parameters.rate = rate_of(wanted.rate);
  parameters.ceil = rate_of(wanted.ceil);
  parameters.buffer = wanted.buffer;
  parameters.cbuffer = wanted.cbuffer;
  parameters.quantum = quantum_of(wanted.rate);
  Message message(RTM_NEWTCLASS, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, head_of(link, wanted));
  message.put(TCA_KIND, "htb");
  message.nest(TCA_OPTIONS, [&] {
    message.put(TCA_HTB_PARMS, &parameters, sizeof parameters);
    if (wanted.rate > kMost32) message.put(TCA_HTB_RATE64, &wanted.rate, sizeof wanted.rate);
    if (wanted.ceil > kMost32) message.put(TCA_HTB_CEIL64, &wanted.ceil, sizeof wanted.ceil);
  });
  return {cat("replace class ", str(wanted.id), " of '", link.name, "'"), std::move(message)};
}

Request remove(const Link& link, const HtbClass& wanted) {
  // EINVAL is a link whose root qdisc has another handle (tc_ctl_tclass() in net/sched/sch_api.c).
  return {cat("remove class ", str(wanted.id), " of '", link.name, "'"),
          Message(RTM_DELTCLASS, NLM_F_ACK, head_of(link, wanted)),
          {ENOENT, EINVAL, ENODEV}};
}

std::optional<HtbClass> decode_htb_class(const Reply& reply) {
  const auto head = reply.fixed<tcmsg>();
  HtbClass out{.parent = Handle{head.tcm_parent}, .id = Handle{head.tcm_handle}};
  bool is_htb = false;
  reply.attributes(sizeof head, [&](std::uint16_t type, const void* data, std::size_t size) {
    if (type == TCA_KIND) is_htb = get_text(data, size) == "htb";
    if (type == TCA_OPTIONS) decode_options(out, data, size);
  });
  if (!is_htb) return std::nullopt;
  return out;
}

}  // namespace netlink::tc

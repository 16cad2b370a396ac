#include "netlink/tc/qdisc.h"

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "netlink/tc/ticks.h"
#include "netlink/types/error.h"

namespace netlink::tc {

namespace {

using std::chrono::microseconds;

constexpr std::uint32_t kHtbVersion = 3, kHtbRateToQuantum = 10;

void put_u32_if(Message& message, std::uint16_t attribute,
                const std::optional<std::uint32_t>& value) {
  if (value) message.put_u32(attribute, *value);
}

void put_us_if(Message& message, std::uint16_t attribute, const std::optional<microseconds>& time) {
  if (!time) return;
  const auto count = std::clamp<microseconds::rep>(time->count(), 0, kMax32);
  message.put_u32(attribute, static_cast<std::uint32_t>(count));
}

// One per kind: the attribute TCA_OPTIONS.

// tbf_enqueue() cuts up what a second bucket, of a peak rate, does not hold. This one holds the
// largest packet, and its rate is one that the kernel, which counts in nanoseconds, takes no time
// for: it never keeps a packet waiting. The size itself is not shown by the kernel, but the rate
// is.
constexpr std::uint64_t kPeakPerByte = 2'000'000'000;

void put_options(Message& message, const Tbf& tbf) {
  tc_tbf_qopt parameters{};
  parameters.rate.rate = static_cast<std::uint32_t>(std::min<std::uint64_t>(tbf.rate, kMax32));
  parameters.rate.linklayer = TC_LINKLAYER_ETHERNET;  // a link layer of 0 asks for a rate table
  parameters.buffer = tbf.buffer;
  parameters.limit = tbf.limit;
  const std::uint64_t peak = tbf.largest * kPeakPerByte;
  parameters.peakrate.rate = static_cast<std::uint32_t>(std::min<std::uint64_t>(peak, kMax32));
  parameters.peakrate.linklayer = TC_LINKLAYER_ETHERNET;
  message.nest(TCA_OPTIONS, [&] {
    message.put_struct(TCA_TBF_PARMS, parameters);
    if (tbf.rate > kMax32) message.put_u64(TCA_TBF_RATE64, tbf.rate);
    if (peak == 0) return;
    message.put_u64(TCA_TBF_PRATE64, peak);
    message.put_u32(TCA_TBF_PBURST, tbf.largest);
  });
}

void put_options(Message& message, const Htb& htb) {
  tc_htb_glob parameters{};
  parameters.version = kHtbVersion;
  parameters.rate2quantum = kHtbRateToQuantum;
  parameters.defcls = htb.default_minor;
  message.nest(TCA_OPTIONS, [&] { message.put_struct(TCA_HTB_INIT, parameters); });
}

void put_options(Message& message, const Fifo& fifo) {
  message.put_struct(TCA_OPTIONS, tc_fifo_qopt{fifo.limit});
}

void put_options(Message& message, const FqCodel& queue) {
  message.nest(TCA_OPTIONS, [&] {
    put_us_if(message, TCA_FQ_CODEL_TARGET, queue.target);
    put_us_if(message, TCA_FQ_CODEL_INTERVAL, queue.interval);
    put_u32_if(message, TCA_FQ_CODEL_LIMIT, queue.limit);
    put_u32_if(message, TCA_FQ_CODEL_FLOWS, queue.flows);
    put_u32_if(message, TCA_FQ_CODEL_QUANTUM, queue.quantum);
    put_u32_if(message, TCA_FQ_CODEL_MEMORY_LIMIT, queue.memory);
    if (queue.ecn) message.put_u32(TCA_FQ_CODEL_ECN, *queue.ecn ? 1 : 0);
  });
}

void put_options(Message& message, const Fq& fq) {
  message.nest(TCA_OPTIONS, [&] {
    put_u32_if(message, TCA_FQ_PLIMIT, fq.limit);
    put_u32_if(message, TCA_FQ_FLOW_PLIMIT, fq.flow_limit);
    put_us_if(message, TCA_FQ_HORIZON, fq.horizon);
    if (fq.horizon_drop) message.put_u8(TCA_FQ_HORIZON_DROP, *fq.horizon_drop ? 1 : 0);
    if (fq.pacing) message.put_u32(TCA_FQ_RATE_ENABLE, *fq.pacing ? 1 : 0);
  });
}

// No options: with some, the kernel would refuse to change one into what it is already.
void put_options(Message& /*message*/, const Ingress& /*ingress*/) {}
void put_options(Message& /*message*/, const Clsact& /*clsact*/) {}

Tbf decode_tbf(const Attributes& options) {
  const auto parameters = options.find(TCA_TBF_PARMS).as<tc_tbf_qopt>();
  const std::uint64_t rate = options.find(TCA_TBF_RATE64).u64();
  const std::uint64_t largest = options.find(TCA_TBF_PRATE64).u64() / kPeakPerByte;
  return {.rate = rate != 0 ? rate : parameters.rate.rate,
          .buffer = parameters.buffer,
          .limit = parameters.limit,
          .largest = static_cast<std::uint32_t>(std::min<std::uint64_t>(largest, kMax32))};
}

Htb decode_htb(const Attributes& options) {
  const auto parameters = options.find(TCA_HTB_INIT).as<tc_htb_glob>();
  return {static_cast<std::uint16_t>(parameters.defcls & 0xFFFFU)};
}

FqCodel decode_fq_codel(const Attributes& options) {
  FqCodel out;
  for (const Attribute& one : options) {
    const std::uint32_t number = one.u32();
    if (one.type == TCA_FQ_CODEL_TARGET) out.target = microseconds(number);
    if (one.type == TCA_FQ_CODEL_INTERVAL) out.interval = microseconds(number);
    if (one.type == TCA_FQ_CODEL_LIMIT) out.limit = number;
    if (one.type == TCA_FQ_CODEL_FLOWS) out.flows = number;
    if (one.type == TCA_FQ_CODEL_QUANTUM) out.quantum = number;
    if (one.type == TCA_FQ_CODEL_MEMORY_LIMIT) out.memory = number;
    if (one.type == TCA_FQ_CODEL_ECN) out.ecn = number != 0;
  }
  return out;
}

Fq decode_fq(const Attributes& options) {
  Fq out;
  for (const Attribute& one : options) {
    if (one.type == TCA_FQ_PLIMIT) out.limit = one.u32();
    if (one.type == TCA_FQ_FLOW_PLIMIT) out.flow_limit = one.u32();
    if (one.type == TCA_FQ_HORIZON) out.horizon = microseconds(one.u32());
    if (one.type == TCA_FQ_HORIZON_DROP) out.horizon_drop = one.u8() != 0;
    if (one.type == TCA_FQ_RATE_ENABLE) out.pacing = one.u32() != 0;
  }
  return out;
}

std::optional<Kind> decode_options(std::string_view kind, const Attribute& options) {
  if (kind == "tbf") return decode_tbf(options.nested());
  if (kind == "htb") return decode_htb(options.nested());
  if (kind == "bfifo") return Fifo{options.as<tc_fifo_qopt>().limit};
  if (kind == "fq_codel") return decode_fq_codel(options.nested());
  if (kind == "fq") return decode_fq(options.nested());
  if (kind == "ingress") return Ingress{};
  if (kind == "clsact") return Clsact{};
  return std::nullopt;
}

tcmsg head_of(const Link& link, const Qdisc& qdisc) {
  tcmsg head{};
  head.tcm_ifindex = link.index;
  head.tcm_parent = static_cast<std::uint32_t>(qdisc.parent);
  head.tcm_handle = static_cast<std::uint32_t>(qdisc.handle);
  return head;
}

// The kernel has clsact in the module of ingress.
std::string module_of(const Kind& kind) {
  return cat("sch_", std::holds_alternative<Clsact>(kind) ? "ingress" : name(kind));
}

RouteRequest put(const Link& link, const Qdisc& qdisc, const char* verb, unsigned flags) {
  Message message(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_ACK | flags, head_of(link, qdisc));
  message.put(TCA_KIND, name(qdisc.kind));
  std::visit([&message](const auto& kind) { put_options(message, kind); }, qdisc.kind);
  return {.operation = cat(verb, " qdisc ", name(qdisc.kind), " ", str(qdisc.handle), " of '",
                           link.name, "'"),
          .message = std::move(message),
          .module = module_of(qdisc.kind)};
}

// Bytes. A tick is 64 ns (PSCHED_SHIFT in net/pkt_sched.h).
double bucket_of(const Tbf& tbf) {
  constexpr double kTicksPerSecond = 15'625'000;
  return static_cast<double>(tbf.buffer) / kTicksPerSecond * static_cast<double>(tbf.rate);
}

}  // namespace

bool can_become(const Tbf& there, const Tbf& wanted) {
  double waiting = bucket_of(there);
  if (there.largest != 0) waiting = std::min(waiting, static_cast<double>(there.largest));
  return bucket_of(wanted) >= waiting;
}

std::string_view name(const Kind& kind) {
  constexpr std::string_view kNames[] = {"tbf", "htb",     "bfifo", "fq_codel",
                                         "fq",  "ingress", "clsact"};
  static_assert(std::size(kNames) == std::variant_size_v<Kind>);
  return kNames[kind.index()];
}

RouteRequest add(const Link& link, const Qdisc& qdisc) {
  return put(link, qdisc, "add", NLM_F_EXCL);
}

RouteRequest replace(const Link& link, const Qdisc& qdisc) {
  return put(link, qdisc, "replace", NLM_F_REPLACE);
}

RouteRequest remove(const Link& link, const Qdisc& qdisc) {
  Message message(RTM_DELQDISC, NLM_F_ACK, head_of(link, qdisc));
  message.put(TCA_KIND, name(qdisc.kind));
  // EINVAL is one of another handle or kind (tc_get_qdisc() in net/sched/sch_api.c).
  return {cat("remove qdisc ", name(qdisc.kind), " ", str(qdisc.handle), " of '", link.name, "'"),
          std::move(message),
          {ENOENT, EINVAL, ENODEV}};
}

QdiscState decode_qdisc(const Reply& reply) {
  const auto head = reply.fixed<tcmsg>();
  const Attributes attributes = reply.attributes(sizeof head);
  const std::string kind = attributes.text(TCA_KIND);
  return {.link = head.tcm_ifindex,
          .parent = Handle{head.tcm_parent},
          .handle = Handle{head.tcm_handle},
          .kind = kind,
          .options = decode_options(kind, attributes.find(TCA_OPTIONS))};
}

}  // namespace netlink::tc

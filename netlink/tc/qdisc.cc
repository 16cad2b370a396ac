#include "netlink/tc/qdisc.h"

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string_view>

#include "netlink/types/error.h"

namespace netlink::tc {

namespace {

using std::chrono::microseconds;

constexpr std::uint32_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kHtbVersion = 3, kHtbRateToQuantum = 10;

template <class T>
T read_struct(const void* data, std::size_t size) {
  T out{};
  if (size >= sizeof out) std::memcpy(&out, data, sizeof out);
  return out;
}

void put_u32_if(Message& message, std::uint16_t attribute,
                const std::optional<std::uint32_t>& value) {
  if (value) message.put_u32(attribute, *value);
}

void put_us_if(Message& message, std::uint16_t attribute, const std::optional<microseconds>& time) {
  if (!time) return;
  const auto count = std::clamp<microseconds::rep>(time->count(), 0, kMost32);
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
  parameters.rate.rate = static_cast<std::uint32_t>(std::min<std::uint64_t>(tbf.rate, kMost32));
  parameters.rate.linklayer = TC_LINKLAYER_ETHERNET;  // a link layer of 0 asks for a rate table
  parameters.buffer = tbf.buffer;
  parameters.limit = tbf.limit;
  const std::uint64_t peak = tbf.largest * kPeakPerByte;
  parameters.peakrate.rate = static_cast<std::uint32_t>(std::min<std::uint64_t>(peak, kMost32));
  parameters.peakrate.linklayer = TC_LINKLAYER_ETHERNET;
  message.nest(TCA_OPTIONS, [&] {
    message.put(TCA_TBF_PARMS, &parameters, sizeof parameters);
    if (tbf.rate > kMost32) message.put(TCA_TBF_RATE64, &tbf.rate, sizeof tbf.rate);
    if (peak == 0) return;
    message.put(TCA_TBF_PRATE64, &peak, sizeof peak);
    message.put_u32(TCA_TBF_PBURST, tbf.largest);
  });
}

void put_options(Message& message, const Htb& htb) {
  tc_htb_glob parameters{};
  parameters.version = kHtbVersion;
  parameters.rate2quantum = kHtbRateToQuantum;
  parameters.defcls = htb.default_minor;
  message.nest(TCA_OPTIONS, [&] { message.put(TCA_HTB_INIT, &parameters, sizeof parameters); });
}

void put_options(Message& message, const Fifo& fifo) {
  const tc_fifo_qopt parameters{fifo.limit};
  message.put(TCA_OPTIONS, &parameters, sizeof parameters);
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

Tbf decode_tbf(const void* data, std::size_t size) {
  tc_tbf_qopt parameters{};
  std::uint64_t rate = 0, peak = 0;
  nested(data, size, [&](std::uint16_t type, const void* value, std::size_t length) {
    if (type == TCA_TBF_PARMS) parameters = read_struct<tc_tbf_qopt>(value, length);
    if (type == TCA_TBF_RATE64) rate = read_struct<std::uint64_t>(value, length);
    if (type == TCA_TBF_PRATE64) peak = read_struct<std::uint64_t>(value, length);
  });
  Tbf out{.rate = rate != 0 ? rate : parameters.rate.rate,
          .buffer = parameters.buffer,
          .limit = parameters.limit};
  out.largest = static_cast<std::uint32_t>(std::min<std::uint64_t>(peak / kPeakPerByte, kMost32));
  return out;
}

Htb decode_htb(const void* data, std::size_t size) {
  Htb out;
  nested(data, size, [&](std::uint16_t type, const void* value, std::size_t length) {
    if (type != TCA_HTB_INIT) return;
    out.default_minor =
        static_cast<std::uint16_t>(read_struct<tc_htb_glob>(value, length).defcls & 0xFFFFU);
  });
  return out;
}

FqCodel decode_fq_codel(const void* data, std::size_t size) {
  FqCodel out;
  nested(data, size, [&](std::uint16_t type, const void* value, std::size_t length) {
    const std::uint32_t number = get_u32(value, length);
    if (type == TCA_FQ_CODEL_TARGET) out.target = microseconds(number);
    if (type == TCA_FQ_CODEL_INTERVAL) out.interval = microseconds(number);
    if (type == TCA_FQ_CODEL_LIMIT) out.limit = number;
    if (type == TCA_FQ_CODEL_FLOWS) out.flows = number;
    if (type == TCA_FQ_CODEL_QUANTUM) out.quantum = number;
    if (type == TCA_FQ_CODEL_MEMORY_LIMIT) out.memory = number;
    if (type == TCA_FQ_CODEL_ECN) out.ecn = number != 0;
  });
  return out;
}

Fq decode_fq(const void* data, std::size_t size) {
  Fq out;
  nested(data, size, [&](std::uint16_t type, const void* value, std::size_t length) {
    if (type == TCA_FQ_PLIMIT) out.limit = get_u32(value, length);
    if (type == TCA_FQ_FLOW_PLIMIT) out.flow_limit = get_u32(value, length);
    if (type == TCA_FQ_HORIZON) out.horizon = microseconds(get_u32(value, length));
    if (type == TCA_FQ_HORIZON_DROP) out.horizon_drop = get_u8(value, length) != 0;
    if (type == TCA_FQ_RATE_ENABLE) out.pacing = get_u32(value, length) != 0;
  });
  return out;
}

std::optional<Kind> decode_options(std::string_view kind, const void* data, std::size_t size) {
  if (kind == "tbf") return decode_tbf(data, size);
  if (kind == "htb") return decode_htb(data, size);
  if (kind == "bfifo") return Fifo{read_struct<tc_fifo_qopt>(data, size).limit};
  if (kind == "fq_codel") return decode_fq_codel(data, size);
  if (kind == "fq") return decode_fq(data, size);
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

Request put(const Link& link, const Qdisc& qdisc, const char* verb, unsigned flags) {
  Message message(RTM_NEWQDISC, static_cast<std::uint16_t>(NLM_F_CREATE | NLM_F_ACK | flags),
                  head_of(link, qdisc));
  message.put(TCA_KIND, name(qdisc.kind));
  std::visit([&message](const auto& kind) { put_options(message, kind); }, qdisc.kind);
  return {cat(verb, " qdisc ", name(qdisc.kind), " ", str(qdisc.handle), " of '", link.name, "'"),
          std::move(message)};
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

Request add(const Link& link, const Qdisc& qdisc) { return put(link, qdisc, "add", NLM_F_EXCL); }

Request replace(const Link& link, const Qdisc& qdisc) {
  return put(link, qdisc, "replace", NLM_F_REPLACE);
}

Request remove(const Link& link, const Qdisc& qdisc) {
  Message message(RTM_DELQDISC, NLM_F_ACK, head_of(link, qdisc));
  message.put(TCA_KIND, name(qdisc.kind));
  // EINVAL is one of another handle or kind (tc_get_qdisc() in net/sched/sch_api.c).
  return {cat("remove qdisc ", name(qdisc.kind), " ", str(qdisc.handle), " of '", link.name, "'"),
          std::move(message),
          {ENOENT, EINVAL, ENODEV}};
}

QdiscState decode_qdisc(const Reply& reply) {
  const auto head = reply.fixed<tcmsg>();
  QdiscState out{.link = head.tcm_ifindex,
                 .parent = Handle{head.tcm_parent},
                 .handle = Handle{head.tcm_handle}};
  const void* options = nullptr;
  std::size_t size = 0;
  reply.attributes(sizeof head, [&](std::uint16_t type, const void* data, std::size_t length) {
    if (type == TCA_KIND) out.kind = get_text(data, length);
    if (type == TCA_OPTIONS) {
      options = data;
      size = length;
    }
  });
  out.options = decode_options(out.kind, options, size);
  return out;
}

}  // namespace netlink::tc

#include "plugins/bandwidth/conf.h"

#include <limits>
#include <string>

#include "libcni/config/keys.h"
#include "plugins/bandwidth/facts.h"

namespace bandwidth {

namespace {

using cni::Reader;
using cni::Type;
using std::chrono::milliseconds;

// The kernel counts in bytes.
constexpr std::uint32_t kBitsPerByte = 8;
constexpr std::uint32_t kMaxBurst = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kMaxMilliseconds = 10'000;

// Keys that the config and the runtime may both set.
struct Asked {
  std::uint64_t ingress_rate = 0, ingress_burst = 0, egress_rate = 0, egress_burst = 0;
  std::vector<netlink::Cidr> shaped, unshaped;
};

template <auto kField>
void read_bits(const Reader& place, Asked& asked) {
  asked.*kField =
      static_cast<std::uint64_t>(place.as_int(0, std::numeric_limits<std::int64_t>::max()));
}

constexpr cni::Key rate_key(const char* name, const char* description) {
  return {.name = name,
          .description = description,
          .default_text = "0",
          .type = Type::kInteger,
          .minimum = kBitsPerByte,
          .expected = "0 or at least 8 bits per second",
          .or_zero = true};
}

constexpr cni::Key burst_key(const char* name, const char* description) {
  return {.name = name,
          .description = description,
          .default_text = "0",
          .type = Type::kInteger,
          .minimum = kBitsPerByte,
          .maximum = std::int64_t{kMaxBurst} * kBitsPerByte - 1,
          .expected = "0 or 8 bits to less than 4 GB",
          .or_zero = true};
}

constexpr auto kLimitKeys = cni::keys(
    cni::custom<read_bits<&Asked::ingress_rate>>(rate_key(
        "ingressRate", "rate limit for traffic to the pod, in bits per second; 0 is unlimited")),
    cni::custom<read_bits<&Asked::ingress_burst>>(burst_key(
        "ingressBurst",
        "burst in bits: size of the token bucket of `ingressRate`. Required with the rate, unless "
        "`burstTime` is set. A burst smaller than a frame drops every full-sized frame")),
    cni::custom<read_bits<&Asked::egress_rate>>(rate_key(
        "egressRate", "rate limit for traffic from the pod, in bits per second; 0 is unlimited")),
    cni::custom<read_bits<&Asked::egress_burst>>(
        burst_key("egressBurst", "as `ingressBurst`, for `egressRate`")));

constexpr auto kSubnetKeys = cni::keys(
    cni::key<&Asked::shaped>(
        {.name = "shapedSubnets",
         .description =
             "networks (CIDR) whose traffic is limited: from the pod to them and from them "
             "to the pod. Other traffic is unlimited"}),
    cni::key<&Asked::unshaped>(
        {.name = "unshapedSubnets",
         .description =
             "networks (CIDR) whose traffic is unlimited; all other traffic is limited. Not "
             "with `shapedSubnets`. Neither list works with `egressMode` `edt`"}));

constexpr std::string_view kModes[] = {"ifb", "pod", "edt"};
constexpr std::string_view kQueues[] = {"fair", "fifo"};

constexpr auto kModeKeys = cni::keys(
    cni::key<&Conf::egress_mode>(
        {.name = "egressMode",
         .description =
             "where egress traffic is shaped: on an ifb device of the node (as in the reference "
             "plugin), in a qdisc in the pod, or in the pod by departure times (eBPF)",
         .default_text = "`ifb`",
         .enumeration = kModes}),
    cni::key<&Conf::queue>(
        {.name = "queue",
         .description =
             "qdisc below the token bucket. `fair`: fq_codel, which serves flows in turn and "
             "splits GSO packets that take longer than a millisecond. `fifo`: one queue, as in the "
             "reference plugin. Default: `fair` if the kernel has fq_codel, else `fifo`",
         .default_text = "detected",
         .enumeration = kQueues}),
    cni::key<&Conf::latency>(
        {.name = "latency",
         .description =
             "maximum time in ms that a packet is queued. Default: 25 ms plus the time that "
             "the burst takes at the rate. The queue always has room for one frame, with "
             "subnets for 256 KiB",
         .minimum = 1,
         .maximum = kMaxMilliseconds}),
    cni::key<&Conf::burst_time>(
        {.name = "burstTime",
         .description =
             "maximum burst, as the time in ms that it takes at the rate, and the burst if "
             "none is set. At least one frame. It caps the burst of 4 Gbit that containerd "
             "and CRI-O always set",
         .minimum = 1,
         .maximum = kMaxMilliseconds}));

constexpr auto kBandwidthKeys = cni::joined(kLimitKeys, kSubnetKeys);
constexpr auto kRuntimeKeys = cni::keys(cni::described<Conf>(
    {.name = "bandwidth",
     .description = "rates, bursts and subnets of one pod, from the runtime. Rates and bursts are "
                    "used only if the config itself sets none of them, subnets likewise",
     .type = Type::kObject,
     .keys = kBandwidthKeys,
     .folded = true}));
constexpr auto kRuntime = cni::keys(cni::described<Conf>(
    {.name = "runtimeConfig", .type = Type::kObject, .keys = kRuntimeKeys, .open = true}));

constexpr auto kKeys = cni::joined(kLimitKeys, kSubnetKeys, kModeKeys, kRuntime);

void check(const Limit& limit, const Reader& rate, const Reader& burst, const Conf& conf) {
  if (limit.rate == 0) burst.refuse("if burst is set, rate must also be set");
  if (limit.burst == 0 && !conf.burst_time) rate.refuse("if rate is set, burst must also be set");
  if (limit.rate < kBitsPerByte) rate.fail("expected at least 8 bits per second");
  if (limit.burst != 0 && limit.burst < kBitsPerByte) burst.fail("expected at least 8 bits");
  if (limit.burst / kBitsPerByte >= kMaxBurst) burst.refuse("burst cannot be more than 4GB");
}

bool has_limit_keys(const Reader& place) {
  return place.has("ingressRate") || place.has("ingressBurst") || place.has("egressRate") ||
         place.has("egressBurst");
}

void read_limits(const Reader& place, Conf& conf) {
  Asked asked;
  cni::read_keys(place, kLimitKeys, asked);
  const Limit ingress{asked.ingress_rate, asked.ingress_burst};
  const Limit egress{asked.egress_rate, asked.egress_burst};
  if (ingress != Limit{}) {
    check(ingress, place["ingressRate"], place["ingressBurst"], conf);
    conf.ingress = ingress;
  }
  if (egress != Limit{}) {
    check(egress, place["egressRate"], place["egressBurst"], conf);
    conf.egress = egress;
  }
}

Subnets read_subnets(const Reader& place) {
  Asked asked;
  cni::read_keys(place, kSubnetKeys, asked);
  if (!asked.shaped.empty() && !asked.unshaped.empty()) {
    place["shapedSubnets"].refuse(
        "unshapedSubnets and shapedSubnets cannot be both specified, one of them should be "
        "discarded");
  }
  Subnets out{!asked.shaped.empty(),
              std::move(asked.shaped.empty() ? asked.unshaped : asked.shaped)};
  for (netlink::Cidr& subnet : out.list) subnet = subnet.network();
  return out;
}

}  // namespace

constinit const cni::Manual kManual{.purpose =
                                        "limits ingress and egress traffic of a pod, chained after "
                                        "the plugin that created its interface",
                                    .keys = kKeys,
                                    .facts = kFacts};

Conf Conf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  const Reader runtime = root["runtimeConfig"]["bandwidth"];
  Conf conf;
  cni::read_keys(root, kModeKeys, conf);
  const bool is_static = has_limit_keys(root);
  read_limits(is_static ? root : runtime, conf);
  conf.asks_for_none = !is_static && !conf.limits() && runtime.present() && has_limit_keys(runtime);
  conf.subnets = read_subnets(root);
  if (conf.subnets.list.empty()) conf.subnets = read_subnets(runtime);
  if (conf.egress_mode == EgressMode::kEdt && !conf.subnets.list.empty()) {
    root["egressMode"].fail("shapedSubnets and unshapedSubnets need \"ifb\" or \"pod\"");
  }
  return conf;
}

DelConf DelConf::parse(const cni::Request& request) {
  DelConf out;
  try {
    const Conf conf = Conf::parse(request);
    out.limits = conf.limits() || conf.asks_for_none;
    out.edt = conf.egress_mode == EgressMode::kEdt;
  } catch (const cni::Error&) {  // what ADD refused
  }
  return out;
}

}  // namespace bandwidth

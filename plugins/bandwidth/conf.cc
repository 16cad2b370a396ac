#include "plugins/bandwidth/conf.h"

#include <limits>
#include <string>

#include "libcni/error.h"

namespace bandwidth {

namespace {

using cni::Reader;
using std::chrono::milliseconds;

constexpr std::uint64_t kBitsPerByte = 8;
constexpr std::int64_t kMostMilliseconds = 10'000;

std::uint64_t bits(const Reader& place) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return place.present() ? static_cast<std::uint64_t>(place.as_int(0, kMost)) : 0;
}

// The kernel counts in bytes.
std::optional<Limit> read_limit(const Reader& rate, const Reader& burst, const Conf& conf) {
  constexpr std::uint64_t kMostBurst = std::numeric_limits<std::uint32_t>::max();
  const Limit limit{bits(rate), bits(burst)};
  if (limit == Limit{}) return std::nullopt;
  if (limit.rate == 0) burst.fail("if burst is set, rate must also be set");
  if (limit.burst == 0 && !conf.burst_time) rate.fail("if rate is set, burst must also be set");
  if (limit.rate < kBitsPerByte) rate.fail("expected at least 8 bits per second");
  if (limit.burst != 0 && limit.burst < kBitsPerByte) burst.fail("expected at least 8 bits");
  if (limit.burst / kBitsPerByte >= kMostBurst) burst.fail("burst cannot be more than 4GB");
  return limit;
}

bool has_limit_keys(const Reader& place) {
  return place.has("ingressRate") || place.has("ingressBurst") || place.has("egressRate") ||
         place.has("egressBurst");
}

void read_limits(const Reader& place, Conf& conf) {
  conf.ingress = read_limit(place["ingressRate"], place["ingressBurst"], conf);
  conf.egress = read_limit(place["egressRate"], place["egressBurst"], conf);
}

std::vector<netlink::Cidr> read_networks(const Reader& place) {
  std::vector<netlink::Cidr> out;
  for (const Reader& element : place.elements()) out.push_back(element.as_cidr().network());
  return out;
}

Subnets read_subnets(const Reader& place) {
  auto shaped = read_networks(place["shapedSubnets"]);
  auto unshaped = read_networks(place["unshapedSubnets"]);
  if (!shaped.empty() && !unshaped.empty()) {
    place["shapedSubnets"].fail(
        "unshapedSubnets and shapedSubnets cannot be both specified, one of them should be "
        "discarded");
  }
  if (!shaped.empty()) return {true, std::move(shaped)};
  return {false, std::move(unshaped)};
}

EgressMode read_egress_mode(const Reader& place) {
  if (!place.present()) return EgressMode::kIfb;
  const std::string text = place.as_string();
  if (text == "ifb") return EgressMode::kIfb;
  if (text == "pod") return EgressMode::kPod;
  if (text == "edt") return EgressMode::kEdt;
  place.fail("expected \"ifb\", \"pod\" or \"edt\"");
}

std::optional<Queue> read_queue(const Reader& place) {
  if (!place.present()) return std::nullopt;
  const std::string text = place.as_string();
  if (text == "fair") return Queue::kFair;
  if (text == "fifo") return Queue::kFifo;
  place.fail("expected \"fair\" or \"fifo\"");
}

std::optional<milliseconds> read_time(const Reader& place) {
  if (!place.present()) return std::nullopt;
  return milliseconds(place.as_int(1, kMostMilliseconds));
}

}  // namespace

Conf Conf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  const Reader runtime = root["runtimeConfig"]["bandwidth"];
  Conf conf;
  conf.egress_mode = read_egress_mode(root["egressMode"]);
  conf.queue = read_queue(root["queue"]);
  conf.latency = read_time(root["latency"]);
  conf.burst_time = read_time(root["burstTime"]);
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

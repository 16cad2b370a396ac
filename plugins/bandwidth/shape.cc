#include "plugins/bandwidth/shape.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bandwidth {

namespace {

using netlink::tc::Ticks;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::uint64_t kMax32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kPerSecond = 1'000'000;    // microseconds
constexpr std::uint64_t kReferenceLatencies = 40;  // of 25 ms in a second

std::uint32_t clamped(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min(value, kMax32));
}

// Does not overflow for rates up to 2^60 and 10 seconds.
std::uint64_t bytes_in(milliseconds time, std::uint64_t rate) {
  const auto count = static_cast<std::uint64_t>(time.count());
  return rate / 1000 * count + rate % 1000 * count / 1000;
}

std::uint32_t microseconds_for(std::uint32_t bytes, std::uint64_t rate) {
  return clamped(bytes * kPerSecond / rate);
}

// A full packet with its link header: a packet larger than the bucket can never leave.
std::uint32_t least_of(unsigned mtu) { return clamped(std::uint64_t{mtu} + 14); }

// Rounded up, so that the bucket holds the bytes.
std::uint32_t ticks_that_hold(std::uint32_t bytes, std::uint64_t rate, const Ticks& ticks) {
  const double time = static_cast<double>(bytes) * kPerSecond / static_cast<double>(rate);
  return clamped(static_cast<std::uint64_t>(
      std::min(std::ceil(time * ticks.per_microsecond), static_cast<double>(kMax32))));
}

std::uint32_t burst_of(const Limit& limit, const Conf& conf, std::uint64_t rate, unsigned mtu) {
  const std::uint32_t stated = clamped(limit.burst / 8);
  if (!conf.burst_time) return stated;
  const std::uint32_t earned = clamped(bytes_in(*conf.burst_time, rate));
  return std::max(stated == 0 ? earned : std::min(stated, earned), least_of(mtu));
}

// On a slow link a packet of 64 KiB takes longer than fair queueing saves.
std::uint32_t largest_of(std::uint64_t rate, unsigned mtu) {
  constexpr milliseconds kTurn{1};
  const std::uint32_t out = std::max(clamped(bytes_in(kTurn, rate)), least_of(mtu));
  return out < kLargestPacket ? out : 0;
}

}  // namespace

nanoseconds Shape::horizon() const {
  const double seconds = static_cast<double>(limit) / static_cast<double>(rate);
  constexpr double kMaxSeconds = 3600;
  return nanoseconds(static_cast<std::int64_t>(std::min(seconds, kMaxSeconds) * 1e9));
}

Shape shape_of(const Limit& limit, const Conf& conf, unsigned mtu, const Ticks& ticks) {
  Shape out{.rate = limit.rate / 8};
  out.burst = burst_of(limit, conf, out.rate, mtu);
  if (conf.latency) {
    out.limit = std::max(clamped(bytes_in(*conf.latency, out.rate)), least_of(mtu));
    // A packet larger than the queue is split if it is larger than the bucket, else dropped.
    if (out.limit < kLargestPacket) out.burst = std::min(out.burst, out.limit);
  } else {
    out.limit = clamped(out.rate / kReferenceLatencies + out.burst);
  }
  out.buffer = ticks.of(microseconds(microseconds_for(out.burst, out.rate)));
  if (out.burst >= least_of(mtu)) {  // whole microseconds may be too coarse for a fast link
    out.buffer = std::max(out.buffer, ticks_that_hold(least_of(mtu), out.rate, ticks));
  }
  if (conf.queue != Queue::kFifo) out.largest = largest_of(out.rate, mtu);
  return out;
}

Shape wrapped_shape_of(const Limit& limit, const Ticks& ticks) {
  Shape out{.rate = limit.rate / 8, .burst = static_cast<std::uint32_t>(limit.burst / 8)};
  const auto time = static_cast<std::uint32_t>(out.burst * kPerSecond / out.rate);
  out.buffer = static_cast<std::uint32_t>(static_cast<std::uint64_t>(time * ticks.per_microsecond));
  out.limit = static_cast<std::uint32_t>(out.rate / kReferenceLatencies) + out.burst;
  return out;
}

netlink::tc::Tbf tbf_of(const Shape& shape) {
  return {
      .rate = shape.rate, .buffer = shape.buffer, .limit = shape.limit, .largest = shape.largest};
}

netlink::tc::FqCodel fq_codel_of(const Shape& shape, const Conf& conf, unsigned mtu) {
  // The kernel's: fq_codel_init() in net/sched/sch_fq_codel.c.
  constexpr microseconds kTarget{5'000}, kInterval{100'000};
  constexpr std::uint32_t kMemory = 32U << 20;
  constexpr std::uint64_t kSomePackets = 16 * 1024;
  const microseconds packet(microseconds_for(least_of(mtu), shape.rate));
  netlink::tc::FqCodel out;
  out.target = std::max(kTarget, packet * 3 / 2);
  out.interval = std::max(kInterval, *out.target * 2);
  // A packet takes up to twice its length in memory.
  out.memory = conf.latency ? clamped(std::uint64_t{shape.limit} * 2 + kSomePackets) : kMemory;
  return out;
}

}  // namespace bandwidth

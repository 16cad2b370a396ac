#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace netlink::tc {

/// The most that a 32-bit field of a rate or time holds. A rate above it goes into an attribute
/// of 64 bits beside it: TCA_TBF_RATE64, TCA_HTB_RATE64.
inline constexpr std::uint32_t kMax32 = std::numeric_limits<std::uint32_t>::max();

/// The unit in which token buckets are measured: the time that filling one takes.
struct Ticks {
  /// 64 ns each: PSCHED_SHIFT in include/net/pkt_sched.h, the same on every machine since Linux
  /// 2.6.31; what /proc/net/psched says.
  double per_microsecond = 15.625;

  /// Rounded down; what does not fit is the most that does.
  std::uint32_t of(std::chrono::microseconds time) const;
  std::chrono::microseconds time(std::uint32_t ticks) const;
};

}  // namespace netlink::tc

#pragma once

#include <chrono>
#include <cstdint>

namespace netlink::tc {

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

#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace netlink::tc {

/// The unit in which token buckets are measured: the time that filling one takes.
struct Ticks {
  double per_microsecond = 15.625;

  /// From /proc/net/psched. \throws netlink::Error.
  static Ticks read();
  /// The text of that file. \throws netlink::Error.
  static Ticks parse(const std::string& text);

  /// Rounded down; what does not fit is the most that does.
  std::uint32_t of(std::chrono::microseconds time) const;
  std::chrono::microseconds time(std::uint32_t ticks) const;
};

}  // namespace netlink::tc

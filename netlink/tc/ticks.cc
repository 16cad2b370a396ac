#include "netlink/tc/ticks.h"

#include <limits>

namespace netlink::tc {

std::uint32_t Ticks::of(std::chrono::microseconds time) const {
  constexpr auto kMax = std::numeric_limits<std::uint32_t>::max();
  const double ticks = static_cast<double>(time.count()) * per_microsecond;
  if (ticks <= 0) return 0;
  return ticks < kMax ? static_cast<std::uint32_t>(ticks) : kMax;
}

std::chrono::microseconds Ticks::time(std::uint32_t ticks) const {
  return std::chrono::microseconds(static_cast<std::int64_t>(ticks / per_microsecond));
}

}  // namespace netlink::tc

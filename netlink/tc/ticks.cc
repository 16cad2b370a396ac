#include "netlink/tc/ticks.h"

#include <cerrno>
#include <cstdio>
#include <limits>
#include <memory>

#include "netlink/types/error.h"

namespace netlink::tc {

Ticks Ticks::read() {
  constexpr const char* kFile = "/proc/net/psched";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(kFile, "re"), std::fclose);
  if (!file) throw Error(cat("read '", kFile, "'"), errno);
  // psched_show() in net/sched/sch_api.c: nanoseconds in a microsecond and in a tick, then a factor
  // that is a million.
  unsigned numerator = 0, denominator = 0, factor = 0;
  if (std::fscanf(file.get(), "%8x %8x %8x", &numerator, &denominator, &factor) != 3 ||
      numerator == 0 || denominator == 0 || factor == 0) {
    throw Error(cat("read '", kFile, "'"), EPROTO);
  }
  return {double{1} * numerator / denominator * (factor / 1e6)};
}

std::uint32_t Ticks::of(std::chrono::microseconds time) const {
  constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();
  const double ticks = static_cast<double>(time.count()) * per_microsecond;
  if (ticks <= 0) return 0;
  return ticks < kMost ? static_cast<std::uint32_t>(ticks) : kMost;
}

std::chrono::microseconds Ticks::time(std::uint32_t ticks) const {
  return std::chrono::microseconds(static_cast<std::int64_t>(ticks / per_microsecond));
}

}  // namespace netlink::tc

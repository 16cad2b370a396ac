#include "netlink/tc/ticks.h"

#include <cerrno>
#include <cstdio>
#include <limits>

#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace netlink::tc {

namespace {

constexpr const char* kFile = "/proc/net/psched";

}  // namespace

Ticks Ticks::read() {
  const auto text = read_file(kFile);
  if (!text) throw Error(cat("read '", kFile, "'"), ENOENT);
  return parse(*text);
}

Ticks Ticks::parse(const std::string& text) {
  // psched_show() in net/sched/sch_api.c: nanoseconds in a microsecond and in a tick, then a factor
  // that is a million.
  unsigned numerator = 0, denominator = 0, factor = 0;
  if (std::sscanf(text.c_str(), "%8x %8x %8x", &numerator, &denominator, &factor) != 3 ||
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

#include <doctest/doctest.h>

#include <cstdio>
#include <limits>

#include "netlink/tc/ticks.h"
#include "netlink/types/fd.h"

using netlink::tc::Ticks;
using namespace std::chrono_literals;

namespace {

constexpr auto kMax = std::numeric_limits<std::uint32_t>::max();

}  // namespace

TEST_CASE("a tick is 64 ns where the kernel says so") {
  const Ticks ticks;
  CHECK(ticks.of(0us) == 0);
  CHECK(ticks.of(1us) == 15);
  CHECK(ticks.of(64us) == 1000);
  CHECK(ticks.of(10ms) == 156250);
  CHECK(ticks.time(156250) == 10ms);
}

TEST_CASE("what does not fit is the most that does, and no time is less than none") {
  const Ticks ticks;
  CHECK(ticks.of(274877906us) == 4294967281);
  CHECK(ticks.of(274877907us) == kMax);
  CHECK(ticks.of(std::chrono::microseconds(kMax)) == kMax);
  CHECK(ticks.of(std::chrono::microseconds::max()) == kMax);
  CHECK(ticks.of(-1us) == 0);
  CHECK(ticks.of(std::chrono::microseconds::min()) == 0);
  CHECK(ticks.time(kMax) == 274877906us);
}

TEST_CASE("this kernel says the same of its ticks") {
  // psched_show() in net/sched/sch_api.c: nanoseconds in a microsecond and in a tick, then a factor
  // that is a million.
  const auto text = netlink::read_file("/proc/net/psched");
  REQUIRE(text);
  unsigned nanoseconds = 0, tick = 0, million = 0;
  REQUIRE(std::sscanf(text->c_str(), "%8x %8x %8x", &nanoseconds, &tick, &million) == 3);
  CHECK(Ticks{}.per_microsecond == 1.0 * nanoseconds / tick * (million / 1e6));
}

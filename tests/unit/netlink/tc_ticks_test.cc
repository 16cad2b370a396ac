#include <doctest/doctest.h>

#include <limits>

#include "netlink/tc/ticks.h"
#include "netlink/types/error.h"

using netlink::tc::Ticks;
using namespace std::chrono_literals;

namespace {

constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();

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
  CHECK(ticks.of(274877907us) == kMost);
  CHECK(ticks.of(std::chrono::microseconds(kMost)) == kMost);
  CHECK(ticks.of(std::chrono::microseconds::max()) == kMost);
  CHECK(ticks.of(-1us) == 0);
  CHECK(ticks.of(std::chrono::microseconds::min()) == 0);
  CHECK(ticks.time(kMost) == 274877906us);
}

TEST_CASE("the kernel's file is read") {
  CHECK(Ticks::parse("000003e8 00000040 000f4240 3b9aca00\n").per_microsecond == 15.625);
  CHECK(Ticks::parse("000003e8 000003e8 000f4240 3b9aca00\n").per_microsecond == 1.0);
  CHECK(Ticks::parse("00000001 00000001 007a1200 00000064").per_microsecond == 8.0);
  for (const char* const text : {"", "\n", "000003e8", "000003e8 00000040", "0 1 1", "1 0 1",
                                 "1 1 0", "x y z", "000003e8 00000040 x"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(Ticks::parse(text), netlink::Error);
  }
  CHECK(Ticks::read().per_microsecond > 0);
}

#include "libcni/daemon/duration.h"

#include <doctest/doctest.h>

using cni::parse_duration;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("durations have units") {
  CHECK(parse_duration("1m30s") == seconds(90));
  CHECK(parse_duration("1.5h") == seconds(5400));
  CHECK(parse_duration("250ms") == milliseconds(250));
  CHECK(parse_duration("0") == seconds(0));
  for (const char* wrong : {"", "5", "s", "5x", "1..2s", "-1s", "1s2", "99999999999h"}) {
    CHECK_FALSE_MESSAGE(parse_duration(wrong), wrong);
  }
}

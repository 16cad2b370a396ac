#include "plugins/devices/agent/pools/quantity.h"

#include <doctest/doctest.h>

#include <limits>

using devices::quantity_in;
using devices::quantity_text;

TEST_CASE("quantities of Kubernetes are read as whole numbers") {
  CHECK(quantity_in("0") == 0);
  CHECK(quantity_in("200M") == 200'000'000);
  CHECK(quantity_in("10G") == 10'000'000'000);
  CHECK(quantity_in("1k") == 1000);
  CHECK(quantity_in("1Ki") == 1024);
  CHECK(quantity_in("2Mi") == 2 * 1024 * 1024);
  CHECK(quantity_in("1e9") == 1'000'000'000);
  CHECK(quantity_in("1E+3") == 1000);
  CHECK(quantity_in("1.5M") == 1'500'000);
  CHECK(quantity_in("1.50") == std::nullopt);
  CHECK(quantity_in("2.00") == 2);
  CHECK(quantity_in("0.5Ki") == 512);
  CHECK(quantity_in("1E") == 1'000'000'000'000'000'000);
  CHECK(quantity_in("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("what is no quantity, is a fraction or too large is none") {
  for (const char* text : {"", "M", "-1", "1m", "1K", "1ki", "1 M", "1MM", "1.2.3", "1.0005k",
                           "10E", "9223372036854775808", "1e19", "1e", "0x10",
                           "99999999999999999999G", "1000000000000000000000000000000000000"}) {
    CAPTURE(text);
    CHECK(quantity_in(text) == std::nullopt);
  }
}

TEST_CASE("a quantity is written as an API server returns it") {
  CHECK(quantity_text(0) == "0");
  CHECK(quantity_text(20) == "20");
  CHECK(quantity_text(1000) == "1k");
  CHECK(quantity_text(1'500'000'000) == "1500M");
  CHECK(quantity_text(10'000'000'000) == "10G");
  CHECK(quantity_text(333'333'333) == "333333333");
}

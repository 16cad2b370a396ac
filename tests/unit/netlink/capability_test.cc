#include "netlink/types/capability.h"

#include <doctest/doctest.h>

using netlink::Capability;
using netlink::missing_of;

TEST_CASE("a capability is named as capabilities(7) names it") {
  CHECK(name_of(Capability::kNetAdmin) == "CAP_NET_ADMIN");
  CHECK(name_of(Capability::kNetRaw) == "CAP_NET_RAW");
  CHECK(name_of(Capability::kSysAdmin) == "CAP_SYS_ADMIN");
}

TEST_CASE("what is missing is what this thread has not") {
  CHECK(missing_of({}).empty());
  std::string expected;
  for (const Capability one : {Capability::kNetAdmin, Capability::kSysAdmin}) {
    if (!has(one)) expected += (expected.empty() ? "" : " and ") + name_of(one);
  }
  CHECK(missing_of({Capability::kNetAdmin, Capability::kSysAdmin}) == expected);
}

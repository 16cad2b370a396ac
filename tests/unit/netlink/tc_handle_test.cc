#include <doctest/doctest.h>

#include "netlink/tc/handle.h"

namespace tc = netlink::tc;

TEST_CASE("handles are written as tc(8) writes them") {
  CHECK(tc::str(tc::handle(1)) == "1:");
  CHECK(tc::str(tc::handle(0xFFFF)) == "ffff:");
  CHECK(tc::str(tc::handle(1, 0x30)) == "1:30");
  CHECK(tc::str(tc::handle(0, 1)) == "0:1");
  CHECK(tc::str(tc::kRoot) == "root");
  CHECK(tc::str(tc::kHook) == "ingress");
  CHECK(tc::str(tc::kIngress) == "ffff:fff2");
  CHECK(tc::str(tc::kNone) == "none");
}

TEST_CASE("the fixed handles have the kernel's numbers") {
  CHECK(static_cast<std::uint32_t>(tc::handle(1, 0x30)) == 0x00010030);
  CHECK(static_cast<std::uint32_t>(tc::kHookHandle) == 0xFFFF0000);
  CHECK(static_cast<std::uint32_t>(tc::kHook) == 0xFFFFFFF1);
  CHECK(static_cast<std::uint32_t>(tc::kEgress) == 0xFFFFFFF3);
}

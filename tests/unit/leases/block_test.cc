#include "plugins/leases/block.h"

#include <doctest/doctest.h>

#include "tests/unit/leases/fixture.h"

namespace leases {

using test::ip;
using test::TempDir;

namespace {

const Cidr kBlock = *Cidr::parse("10.5.0.16/28");

}  // namespace

TEST_CASE("block: its leases among all") {
  const std::vector<Ip> used{ip("10.5.0.15"), ip("10.5.0.16"), ip("10.5.0.31"), ip("10.5.0.32"),
                             ip("fd00::10")};
  const auto ours = in_block(used, kBlock);
  REQUIRE(ours.size() == 2);
  CHECK(ours[0] == ip("10.5.0.16"));
  CHECK(ours[1] == ip("10.5.0.31"));
  CHECK(in_block(used, *Cidr::parse("10.6.0.0/28")).empty());
  CHECK(in_block({}, kBlock).empty());
}

TEST_CASE("block: it is free of leases once those of before the boot are reclaimed") {
  const TempDir dir;
  const auto free_in = [&](const std::string& boot) {
    const Host host{.boot_id = boot, .machine_file = dir.path("machine")};
    auto store = Store::create(dir.path(), "net", host);
    store.lock();
    return is_free_of_leases(store, kBlock);
  };
  dir.write("machine", "0123456789abcdef0123456789abcdef\n");
  CHECK(free_in("b1"));
  {
    auto store = Store::create(dir.path(), "net",
                               Host{.boot_id = "b1", .machine_file = dir.path("machine")});
    store.lock();
    REQUIRE(store.reserve(ip("10.5.0.20"), {"ctr", "eth0"}));
  }
  CHECK_FALSE(free_in("b1"));
  CHECK(free_in("b2"));
  dir.write("net/10.5.0.21", "printer\n");
  CHECK_FALSE(free_in("b2"));
}

}  // namespace leases

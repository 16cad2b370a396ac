#include "plugins/cluster-pool/share.h"

#include <doctest/doctest.h>

#include "plugins/cluster-pool/ask.h"
#include "plugins/cluster-pool/conf.h"
#include "tests/unit/leases/fixture.h"

namespace cluster_pool {

using blocks::Held;
using blocks::State;
using leases::test::ip;
using netlink::Cidr;

namespace {

blocks::Pool pool(const std::string& ipam) {
  return Conf::parse(leases::test::request(R"({"cniVersion": "1.1.0", "name": "net", "ipam": {)" +
                                           ipam + "}}"))
      .pool;
}

Held held(const std::vector<std::pair<std::string, State>>& all) {
  Held out{.network = "net", .node = "node1", .pool = {.data_dir = "/var/lib/cni/networks"}};
  for (const auto& [cidr, state] : all) out.blocks.push_back({*Cidr::parse(cidr), "", state});
  return out;
}

const std::string kDual = R"("ranges": [[{"subnet": "10.5.0.0/26"}], [{"subnet": "fd00:5::/64"}]])";

}  // namespace

TEST_CASE("share: held blocks alone, each in the set whose range has it") {
  const auto shares = shares_of(pool(kDual), held({{"10.5.0.48/28", State::kHeld},
                                                   {"10.5.0.16/28", State::kReturning},
                                                   {"10.5.0.32/28", State::kLost},
                                                   {"10.5.0.0/29", State::kHeld},
                                                   {"10.9.0.0/28", State::kHeld},
                                                   {"fd00:5::100/120", State::kHeld}}));
  REQUIRE(shares.size() == 2);
  CHECK(shares[0].addresses.str() == "10.5.0.48-10.5.0.62");
  CHECK(shares[0].blocks == 1);
  CHECK(shares[1].addresses.str() == "fd00:5::100-fd00:5::1ff");
  CHECK(shares[0].addresses.ranges[0].subnet == *Cidr::parse("10.5.0.0/26"));
  CHECK(has(shares, ip("10.5.0.50")));
  CHECK_FALSE(has(shares, ip("10.5.0.20")));
  CHECK_FALSE(has(shares, ip("10.5.0.63")));
}

TEST_CASE("share: blocks in which another folder has the leases give no address") {
  auto moved = pool(kDual);
  moved.data_dir = "/mnt/networks";
  const auto shares = shares_of(moved, held({{"10.5.0.16/28", State::kHeld}}));
  REQUIRE(shares.size() == 2);
  CHECK(shares[0].blocks == 0);
  CHECK(shares[0].addresses.ranges.empty());
}

TEST_CASE("share: without a file nothing is held") {
  const auto shares = shares_of(pool(kDual), std::nullopt);
  REQUIRE(shares.size() == 2);
  CHECK(shares[0].addresses.ranges.empty());
  CHECK_FALSE(shares[0].is_whole);
}

TEST_CASE("share: nearly full is 3/4, unless the node has all blocks") {
  const auto two =
      shares_of(pool(R"("subnet": "10.5.0.0/24")"),
                held({{"10.5.0.16/28", State::kHeld}, {"10.5.0.32/28", State::kHeld}}));
  CHECK_FALSE(is_nearly_full(two[0], 23));
  CHECK(is_nearly_full(two[0], 24));
  const auto all =
      shares_of(pool(R"("subnet": "10.5.0.0/28")"), held({{"10.5.0.0/28", State::kHeld}}));
  CHECK(all[0].is_whole);
  CHECK_FALSE(is_nearly_full(all[0], 13));
}

}  // namespace cluster_pool

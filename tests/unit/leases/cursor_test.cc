#include "plugins/leases/cursor.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/unit/leases/fixture.h"

namespace leases {

using test::error_of;
using test::ip;
using test::range;

namespace {

std::string defaults(const std::string& subnet) {
  const Range r = range(subnet);
  return r.str() + " gw " + r.gateway.str();
}

std::string walk(const RangeSet& set, const std::string& last) {
  std::string out;
  Cursor cursor(set, Ip::parse(last));
  while (const auto found = cursor.next()) out += found->ip.str() + " ";
  return out;
}

}  // namespace

TEST_CASE("range: start, end and gateway have defaults") {
  CHECK(defaults("192.0.2.0/24") == "192.0.2.1-192.0.2.254 gw 192.0.2.1");
  CHECK(defaults("192.0.2.0/25") == "192.0.2.1-192.0.2.126 gw 192.0.2.1");
  CHECK(defaults("2001:db8:1::/64") ==
        "2001:db8:1::1-2001:db8:1:0:ffff:ffff:ffff:ffff gw 2001:db8:1::1");
}

TEST_CASE("range: all that is given is kept") {
  const Range r = range("192.0.2.0/24", "192.0.2.40", "192.0.2.50", "192.0.2.254");
  CHECK(r.str() == "192.0.2.40-192.0.2.50");
  CHECK(r.gateway == ip("192.0.2.254"));
  CHECK(range("10.0.0.0/24", "10.0.0.0", "10.0.0.255").size() == 255);
}

TEST_CASE("range: a subnet with host bits is refused in the reference's words") {
  const auto with_length = [](const std::string& subnet) {
    return error_of([&] { range(subnet); });
  };
  CHECK(with_length("192.0.2.12/24") ==
        "7 Network has host bits set. For a subnet mask of length 24 the network address is "
        "192.0.2.0");
  CHECK(with_length("2001:db8:1::12/64")
            .ends_with("of length 64 the network address is 2001:db8:1::"));
  CHECK(with_length("2001:db8:1:1::/63")
            .ends_with("of length 63 the network address is 2001:db8:1::"));
  CHECK(with_length("192.0.3.0/23").ends_with("of length 23 the network address is 192.0.2.0"));
}

TEST_CASE("range: a subnet of fewer than four addresses is too small") {
  for (const char* subnet : {"192.0.2.0/31", "192.0.2.0/32", "2001:db8::/127", "2001:db8::/128"}) {
    CHECK(error_of([&] { range(subnet); }) ==
          cni::cat("7 Network ", subnet, " too small to allocate from"));
  }
}

TEST_CASE("range: ends outside of the subnet are refused") {
  CHECK(error_of([] { range("192.0.2.0/24", "192.0.3.0"); }) ==
        "7 RangeStart 192.0.3.0 not in network 192.0.2.0/24");
  CHECK(error_of([] { range("192.0.2.0/24", "", "192.0.4.0"); }) ==
        "7 RangeEnd 192.0.4.0 not in network 192.0.2.0/24");
  CHECK(error_of([] {
          range("192.0.2.0/24", "192.0.2.50", "192.0.2.40");
        }).starts_with("7 RangeStart 192.0.2.50 not in network 192.0.2.0/24"));
  CHECK(error_of([] {
          range("192.0.2.0/24", "", "192.0.2.0");
        }).starts_with("7 RangeEnd 192.0.2.0 not in network"));
}

TEST_CASE("range: a start at the broadcast address does not walk out of the subnet") {
  CHECK(error_of([] { range("192.0.2.0/24", "192.0.2.255"); }) ==
        "7 RangeStart 192.0.2.255 not in network 192.0.2.0/24");
}

TEST_CASE("range: both ends belong to it") {
  const Range v4 = range("192.0.2.0/24", "192.0.2.40", "192.0.2.50");
  const Range v6 = range("2001:db8:1::/64", "2001:db8:1::40", "2001:db8:1::50");
  for (const char* in : {"192.0.2.40", "192.0.2.45", "192.0.2.50"}) CHECK(v4.contains(ip(in)));
  for (const char* out : {"192.0.2.39", "192.0.2.51", "192.0.3.45", "2001:db8:1::41"}) {
    CHECK_FALSE(v4.contains(ip(out)));
  }
  CHECK(v6.contains(ip("2001:db8:1::40")));
  CHECK(v6.contains(ip("2001:db8:1::50")));
  CHECK_FALSE(v6.contains(ip("2001:db8:1::3f")));
  CHECK_FALSE(v6.contains(ip("2001:db8:1::51")));
}

TEST_CASE("range: overlap is seen from both sides") {
  const struct {
    Range a, b;
    bool overlap;
  } cases[] = {
      {range("192.0.0.0/24"), range("192.0.1.0/24"), false},
      {range("2000::/64"), range("32.0.0.0/24"), false},
      {range("192.0.0.0/24"), range("192.0.0.0/24"), true},
      {range("192.0.0.0/20"), range("192.0.2.0/24"), true},
      {range("192.0.0.0/24", "", "192.0.0.127"), range("192.0.0.0/24", "192.0.0.128"), false},
      {range("192.0.0.0/24", "", "192.0.0.128"), range("192.0.0.0/24", "192.0.0.128"), true},
  };
  for (const auto& c : cases) {
    CHECK(c.a.overlaps(c.b) == c.overlap);
    CHECK(c.b.overlaps(c.a) == c.overlap);
  }
}

TEST_CASE("range: the size leaves out the gateway and stops at 64 bits") {
  CHECK(range("10.0.0.0/29").size() == 5);
  CHECK(range("10.0.0.0/29", "", "", "10.0.1.1").size() == 6);
  CHECK(range("2001:db8::/112").size() == 65534);
  CHECK(range("::/0").size() == std::numeric_limits<std::uint64_t>::max());
  CHECK(range("2001:db8::/64", "2001:db8::", "", "::1").size() ==
        std::numeric_limits<std::uint64_t>::max());
  CHECK(RangeSet{{range("2001:db8::/64"), range("2001:db9::/64")}}.size() ==
        std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("set: membership, text and overlap") {
  const RangeSet set{{range("192.168.0.0/20"), range("172.16.3.0/24")}};
  CHECK(set.find(ip("192.168.2.2")) == set.ranges.data());
  CHECK(set.find(ip("172.16.3.9")) == set.ranges.data() + 1);
  CHECK(set.find(ip("99.99.99.99")) == nullptr);
  CHECK_FALSE(set.gives(ip("172.16.3.1")));
  CHECK(set.str() == "192.168.0.1-192.168.15.254,172.16.3.1-172.16.3.254");
  const RangeSet other{{range("10.0.0.0/24"), range("192.168.1.0/24")}};
  CHECK(set.overlaps(other));
  CHECK(other.overlaps(set));
  CHECK_FALSE(set.overlaps({{range("10.0.0.0/24")}}));
}

TEST_CASE("set: emptiness, mixed families and overlap inside are refused") {
  CHECK(error_of([] { cni::check_ranges(RangeSet{}); }) == "7 empty range set");
  CHECK(error_of([] {
          cni::check_ranges({{range("10.0.0.0/24"), range("2001:db8::/64")}});
        }) == "7 mixed address families");
  CHECK(error_of([] {
          cni::check_ranges({{range("10.0.0.0/20"), range("10.0.1.0/24")}});
        }) == "7 subnets 10.0.0.1-10.0.15.254 and 10.0.1.1-10.0.1.254 overlap");
}

TEST_CASE("cursor: visits each address once and the last reserved one last") {
  const RangeSet set{{range("10.0.0.0/29"), range("10.0.1.0/30")}};
  CHECK(walk(set, "") == "10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.1.2 ");
  CHECK(walk(set, "10.0.0.4") == "10.0.0.5 10.0.0.6 10.0.1.2 10.0.0.2 10.0.0.3 10.0.0.4 ");
  CHECK(walk(set, "10.0.0.6") == "10.0.1.2 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 ");
  CHECK(walk(set, "10.0.1.2") == "10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.1.2 ");
  CHECK(walk(set, "10.0.2.2") == walk(set, ""));
}

TEST_CASE("cursor: goes round at the top of the address space") {
  const RangeSet v4{{range("255.255.255.252/30", "255.255.255.254", "255.255.255.255")}};
  CHECK(walk(v4, "255.255.255.255") == "255.255.255.254 255.255.255.255 ");
  const RangeSet v6{{range("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126")}};
  CHECK(walk(v6, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff") ==
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ");
}

TEST_CASE("cursor: a range that is nothing but its gateway gives no address") {
  const RangeSet set{{range("10.0.0.0/30", "10.0.0.1", "10.0.0.1")}};
  CHECK(walk(set, "").empty());
  CHECK(walk(set, "10.0.0.1").empty());
}

}  // namespace leases

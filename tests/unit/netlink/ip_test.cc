#include "netlink/types/ip.h"

#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>

using netlink::Cidr;
using netlink::Family;
using netlink::Ip;

namespace {

Ip ip(std::string_view text) { return Ip::parse(text).value(); }
Cidr cidr(std::string_view text) { return Cidr::parse(text).value(); }

}  // namespace

TEST_CASE("an address is printed as RFC 5952 says") {
  const struct {
    const char *given, *printed;
  } table[] = {
      {"10.1.2.3", "10.1.2.3"},
      {"0.0.0.0", "0.0.0.0"},
      {"255.255.255.255", "255.255.255.255"},
      {"::", "::"},
      {"::1", "::1"},
      {"1::", "1::"},
      {"2001:DB8::ABCD", "2001:db8::abcd"},                        // 4.3: lower case
      {"2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1"},  // 4.1: no leading zeros
      {"2001:db8:0:0:0:0:2:1", "2001:db8::2:1"},                   // 4.2.1: as short as possible
      {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},            // 4.2.2: not for one group
      {"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},                     // 4.2.3: the longest run
      {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},               // 4.2.3: the first of equals
      {"0:0:1:0:0:0:0:0", "0:0:1::"},
      {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"},
      {"fe80:0:0:0:0:0:0:0", "fe80::"},
      {"64:ff9b::192.0.2.33", "64:ff9b::c000:221"},
      {"::1.2.3.4", "::102:304"},       // not as inet_ntop(3) does
      {"::ffff:10.1.2.3", "10.1.2.3"},  // IPv4-mapped is the IPv4 address
      {"::FFFF:0a01:0203", "10.1.2.3"},
      {"::fffe:10.1.2.3", "::fffe:a01:203"},
  };
  for (const auto& row : table) {
    CAPTURE(row.given);
    REQUIRE(Ip::parse(row.given));
    CHECK(ip(row.given).str() == row.printed);
    CHECK(ip(ip(row.given).str()) == ip(row.given));
  }
}

TEST_CASE("what is not an address is not taken for one") {
  const std::string_view table[] = {"",
                                    "10",
                                    "10.1.2",
                                    "10.1.2.3.4",
                                    "10.1.2.256",
                                    "010.1.2.3",
                                    "10.01.2.3",
                                    "10.1.2.03",
                                    "10.1.2.3 ",
                                    " 10.1.2.3",
                                    "10.1.2.-3",
                                    "0x0a.1.2.3",
                                    "10.1.2.3/24",
                                    "fe80::1%eth0",
                                    "::1%0",
                                    ":",
                                    ":::",
                                    "1::2::3",
                                    "1:2:3:4:5:6:7",
                                    "1:2:3:4:5:6:7:8:9",
                                    "12345::",
                                    "g::",
                                    "::ffff:010.1.2.3",
                                    "::ffff:1.2.3",
                                    "[::1]",
                                    "localhost",
                                    std::string_view("10.1.2.3\0", 9),
                                    std::string_view("::1\0x", 5)};
  for (const auto text : table) {
    CAPTURE(text);
    CHECK_FALSE(Ip::parse(text));
  }
}

TEST_CASE("an address knows its family and size") {
  CHECK(ip("10.0.0.1").family() == Family::kIpv4);
  CHECK(ip("10.0.0.1").size() == 4);
  CHECK(ip("10.0.0.1").bits() == 32);
  CHECK(ip("::1").family() == Family::kIpv6);
  CHECK(ip("::1").size() == 16);
  CHECK(ip("::1").bits() == 128);
  CHECK(ip("::ffff:1.2.3.4").family() == Family::kIpv4);
}

TEST_CASE("an address is made of 4 or 16 bytes in network order") {
  const unsigned char four[] = {192, 0, 2, 1};
  CHECK(Ip::from_bytes(four, 4).str() == "192.0.2.1");
  unsigned char sixteen[16] = {0x20, 0x01, 0x0d, 0xb8};
  sixteen[15] = 7;
  CHECK(Ip::from_bytes(sixteen, 16).str() == "2001:db8::7");
  const unsigned char mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1};
  CHECK(Ip::from_bytes(mapped, 16) == ip("192.0.2.1"));
  CHECK_THROWS_AS(Ip::from_bytes(sixteen, 6), std::invalid_argument);
  CHECK_THROWS_AS(Ip::from_bytes(sixteen, 0), std::invalid_argument);
}

TEST_CASE("IPv4 stands before IPv6, then numbers decide") {
  CHECK(ip("255.255.255.255") < ip("::"));
  CHECK(ip("9.255.255.255") < ip("10.0.0.0"));
  CHECK(ip("10.0.0.2") < ip("10.0.0.10"));
  CHECK(ip("2001:db8::ffff") < ip("2001:db8::1:0"));
  CHECK(ip("0.0.0.1") != ip("::1"));
}

TEST_CASE("next and prev carry, and stop at the ends of the family") {
  const struct {
    const char *one, *two;
  } table[] = {{"10.0.0.1", "10.0.0.2"},
               {"10.0.0.255", "10.0.1.0"},
               {"10.255.255.255", "11.0.0.0"},
               {"255.255.255.254", "255.255.255.255"},
               {"2001:db8::ffff", "2001:db8::1:0"},
               {"2001:db8:0:0:ffff:ffff:ffff:ffff", "2001:db8:0:1::"}};
  for (const auto& row : table) {
    CAPTURE(row.one);
    CHECK(ip(row.one).next() == ip(row.two));
    CHECK(ip(row.two).prev() == ip(row.one));
  }
  CHECK_FALSE(ip("255.255.255.255").next());
  CHECK_FALSE(ip("0.0.0.0").prev());
  CHECK_FALSE(ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff").next());
  CHECK_FALSE(ip("::").prev());
}

TEST_CASE("masked clears host bits, broadcast sets them") {
  const struct {
    const char* address;
    unsigned prefix;
    const char *network, *last;
  } table[] = {{"10.1.2.3", 24, "10.1.2.0", "10.1.2.255"},
               {"10.1.2.3", 30, "10.1.2.0", "10.1.2.3"},
               {"10.1.2.3", 9, "10.0.0.0", "10.127.255.255"},
               {"10.1.2.3", 0, "0.0.0.0", "255.255.255.255"},
               {"10.1.2.3", 32, "10.1.2.3", "10.1.2.3"},
               {"2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::", "2001:db8:1:2:ffff:ffff:ffff:ffff"},
               {"2001:db8::ffff", 121, "2001:db8::ff80", "2001:db8::ffff"},
               {"2001:db8::1", 128, "2001:db8::1", "2001:db8::1"}};
  for (const auto& row : table) {
    CAPTURE(row.address);
    CAPTURE(row.prefix);
    CHECK(ip(row.address).masked(row.prefix).str() == row.network);
    CHECK(ip(row.address).broadcast(row.prefix).str() == row.last);
  }
}

TEST_CASE("special addresses are told apart") {
  CHECK(ip("0.0.0.0").is_unspecified());
  CHECK(ip("::").is_unspecified());
  CHECK_FALSE(ip("0.0.0.1").is_unspecified());
  CHECK(ip("127.0.0.1").is_loopback());
  CHECK(ip("127.255.255.254").is_loopback());
  CHECK(ip("::1").is_loopback());
  CHECK_FALSE(ip("128.0.0.1").is_loopback());
  CHECK_FALSE(ip("::2").is_loopback());
  CHECK(ip("224.0.0.1").is_multicast());
  CHECK(ip("239.255.255.255").is_multicast());
  CHECK(ip("ff02::1").is_multicast());
  CHECK_FALSE(ip("240.0.0.1").is_multicast());
  CHECK_FALSE(ip("fe80::1").is_multicast());
  CHECK(ip("169.254.1.1").is_link_local());
  CHECK(ip("fe80::1").is_link_local());
  CHECK(ip("febf::1").is_link_local());
  CHECK_FALSE(ip("fec0::1").is_link_local());
  CHECK_FALSE(ip("169.253.1.1").is_link_local());
}

TEST_CASE("CIDR notation keeps the host bits") {
  CHECK(cidr("10.1.2.3/24").str() == "10.1.2.3/24");
  CHECK(cidr("10.1.2.3/24").network().str() == "10.1.2.0/24");
  CHECK(cidr("0.0.0.0/0").str() == "0.0.0.0/0");
  CHECK(cidr("2001:DB8::1/64").str() == "2001:db8::1/64");
  CHECK(cidr("::/0").network().str() == "::/0");
}

TEST_CASE("an IPv4-mapped CIDR counts its prefix in IPv6 bits") {
  CHECK(cidr("::ffff:10.0.0.0/104").str() == "10.0.0.0/8");
  CHECK(cidr("::ffff:10.0.0.0/128").str() == "10.0.0.0/32");
  CHECK_FALSE(Cidr::parse("::ffff:10.0.0.0/24"));
  CHECK_FALSE(Cidr::parse("::ffff:10.0.0.0/129"));
}

TEST_CASE("what is not CIDR notation is not taken for it") {
  for (const std::string_view text :
       {"", "/", "10.1.2.3", "10.1.2.3/", "/24", "10.1.2.3/33", "10.1.2.3/024", "10.1.2.3/+4",
        "10.1.2.3/-1", "10.1.2.3/ 8", "10.1.2.3/8 ", "10.1.2.3/24/8", "10.1.2.0/255.255.255.0",
        "::/129", "::/1000", "10.1.2/24", "fe80::1%eth0/64", "10.1.2.3/99999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(Cidr::parse(text));
  }
}

TEST_CASE("a network contains the addresses of its family under its prefix") {
  CHECK(cidr("10.1.2.3/24").contains(ip("10.1.2.255")));
  CHECK_FALSE(cidr("10.1.2.3/24").contains(ip("10.1.3.0")));
  CHECK(cidr("0.0.0.0/0").contains(ip("255.0.0.1")));
  CHECK_FALSE(cidr("0.0.0.0/0").contains(ip("::1")));
  CHECK(cidr("2001:db8::/33").contains(ip("2001:db8:7fff::1")));
  CHECK_FALSE(cidr("2001:db8::/33").contains(ip("2001:db8:8000::1")));
}

TEST_CASE("a default route is prefix 0 of the unspecified address") {
  CHECK(cidr("0.0.0.0/0").is_default());
  CHECK(cidr("::/0").is_default());
  CHECK_FALSE(cidr("0.0.0.0/1").is_default());
  CHECK_FALSE(cidr("10.0.0.0/0").is_default());
}

TEST_CASE("a network as bytes counts its prefix in the bits of those bytes") {
  const unsigned char v4[4] = {10, 1, 2, 3};
  CHECK(Cidr::from_bytes(v4, 4, 24) == Cidr::parse("10.1.2.3/24"));
  const unsigned char mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3};
  CHECK(Cidr::from_bytes(mapped, 16, 120) == Cidr::parse("10.1.2.3/24"));
  CHECK(Cidr::from_bytes(mapped, 16, 64) == Cidr::parse("10.1.2.3/0"));
}

TEST_CASE("a prefix is never longer than its address") {
  const unsigned char bytes[16] = {0x20, 1};
  CHECK(Cidr::from_bytes(bytes, 4, 200).prefix == 32);
  CHECK(Cidr::from_bytes(bytes, 16, 200).prefix == 128);
}

TEST_CASE("addresses are counted from the first to the last") {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  const auto all = [](const char* first, const char* last) {
    return netlink::count(*Ip::parse(first), *Ip::parse(last));
  };
  CHECK(all("10.0.0.7", "10.0.0.7") == 1);
  CHECK(all("10.0.0.255", "10.0.1.1") == 3);
  CHECK(all("0.0.0.0", "255.255.255.255") == std::uint64_t{1} << 32);
  CHECK(all("2001:db8:0:0:ffff:ffff:ffff:fffe", "2001:db8:0:1::1") == 4);
  CHECK(all("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff") == kMax);
  CHECK(all("2001:db8::", "2001:db8::ffff:ffff:ffff:ffff") == kMax);  // one more
  CHECK(all("2001:db8::", "2001:db8:0:1::") == kMax);
  CHECK(all("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff") == kMax);
  const auto others = [](const char* first, const char* last) {
    return netlink::count_but_one(*Ip::parse(first), *Ip::parse(last));
  };
  CHECK(others("10.0.0.7", "10.0.0.7") == 0);
  CHECK(others("255.255.255.255", "255.255.255.255") == 0);
  CHECK(others("10.0.0.255", "10.0.1.1") == 2);
  CHECK(others("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff") == kMax - 1);
  CHECK(others("2001:db8::", "2001:db8::ffff:ffff:ffff:ffff") == kMax);
  CHECK(others("2001:db8::", "2001:db8:0:1::") == kMax);
}

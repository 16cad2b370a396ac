#include "netlink/types/mac.h"

#include <doctest/doctest.h>

using netlink::Mac;

TEST_CASE("a hardware address is read in three notations and printed in one") {
  for (const char* text : {"0a:58:0A:01:02:fF", "0a-58-0A-01-02-fF", "0a58.0A01.02fF"}) {
    CAPTURE(text);
    REQUIRE(Mac::parse(text));
    CHECK(Mac::parse(text)->str() == "0a:58:0a:01:02:ff");
  }
  CHECK(Mac::parse("0a:58:0a:01:02:ff")->bytes ==
        std::array<std::uint8_t, 6>{0x0a, 0x58, 0x0a, 0x01, 0x02, 0xff});
}

TEST_CASE("what is not an Ethernet address is not taken for one") {
  for (const std::string_view text :
       {"", "0a:58:0a:01:02", "0a:58:0a:01:02:ff:00", "0a:58:0a:01:02:fg", "0a:58-0a:01:02:ff",
        "0a 58 0a 01 02 ff", "0a58.0a01-02ff", "0a580a.0102ff", "a:58:0a:01:02:ff00",
        "0a580a0102ff", "0a58:0a01:02ff",
        "00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:10:00:00:00:01"}) {
    CAPTURE(text);
    CHECK_FALSE(Mac::parse(text));
  }
}

TEST_CASE("a random hardware address is unicast, locally administered and another each time") {
  const Mac one = Mac::random();
  CHECK((one.bytes[0] & 3) == 2);
  CHECK_FALSE(one.is_multicast());
  CHECK(one != Mac::random());
}

TEST_CASE("group and zero hardware addresses are told apart") {
  CHECK(Mac{}.is_zero());
  CHECK_FALSE(Mac::parse("00:00:00:00:00:01")->is_zero());
  CHECK(Mac::parse("33:33:00:00:00:01")->is_multicast());
  CHECK(Mac::parse("ff:ff:ff:ff:ff:ff")->is_multicast());
  CHECK_FALSE(Mac::parse("0a:58:0a:01:02:ff")->is_multicast());
}

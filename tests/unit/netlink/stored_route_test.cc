#include "netlink/route/stored_route.h"

#include <doctest/doctest.h>
#include <linux/rtnetlink.h>

#include "netlink/message.h"

using namespace netlink;

TEST_CASE("a route is read as it was stored, with all that it has") {
  const auto asked = add(Link{.index = 7, .name = "net1"}, {.dst = *Cidr::parse("10.9.0.0/16"),
                                                            .gateway = Ip::parse("10.1.2.1"),
                                                            .table = 254,
                                                            .priority = 5,
                                                            .mtu = 1400,
                                                            .source = Ip::parse("10.1.2.3")});
  const RouteCopy route = copy_route(Reply(asked.message.bytes()));
  const auto again = route_from_stored(stored(route));
  REQUIRE(again);
  CHECK(again->payload == route.payload);
  CHECK(again->route.dst == route.route.dst);
  CHECK(again->route.gateway == route.route.gateway);
  CHECK(again->route.priority == 5);
  CHECK(again->route.link == 7);
}

TEST_CASE("what is no stored route is none") {
  for (const char* text : {"", "0", "zz", "00", "0200", "02000000000000000000 0"}) {
    CHECK_FALSE_MESSAGE(route_from_stored(text), text);
  }
  // The last attribute is cut off.
  CHECK_FALSE(route_from_stored("02100000fe030001000000000800"));
}

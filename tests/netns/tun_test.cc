// In network namespaces of its own: taps by the ioctls of /dev/net/tun. Needs root and that device.
#include "netlink/tun.h"

#include <cerrno>

#include "netlink/route/socket.h"
#include "tests/netns/node.h"

using namespace netlink;

namespace {

int errno_of(const NetNs& where, const NewTap& spec) {
  try {
    TunFile(where).create(spec);
  } catch (const Error& e) {
    return e.error();
  }
  return 0;
}

const node::TestFile kFile(__FILE__,
                           [](doctest::Context&) { return node::unless("test -c /dev/net/tun"); });

}  // namespace

TEST_CASE("a tap is made in the namespace that was named, with its owner, and stays") {
  const node::Fresh here;
  const NetNs pod_ns = NetNs::create();
  TunFile(pod_ns).create({.name = "eth0", .multi_queue = true, .owner = 107, .group = 36});
  CHECK_FALSE(RouteSocket().find("eth0"));
  const Link link = RouteSocket(pod_ns).get("eth0");
  CHECK(link.kind == "tun");
  CHECK_FALSE(link.up);
  CHECK(std::get<Tun>(link.data) == Tun{.tap = true,
                                        .vnet_header = true,
                                        .multi_queue = true,
                                        .persistent = true,
                                        .owner = 107,
                                        .group = 36});
}

TEST_CASE("without owner and group it has none") {
  const node::Fresh here;
  TunFile(NetNs::current()).create({.name = "eth0"});
  CHECK(std::get<Tun>(RouteSocket().get("eth0").data) ==
        Tun{.tap = true, .vnet_header = true, .persistent = true});
}

TEST_CASE("a persistent tap of that name is not attached to") {
  const node::Fresh here;
  const NetNs ns = NetNs::current();
  REQUIRE(node::run("ip tuntap add eth0 mode tap && ip link add br0 type bridge"));
  const int index = RouteSocket().get("eth0").index;
  CHECK(errno_of(ns, {.name = "eth0", .owner = 107}) == EBUSY);
  CHECK(errno_of(ns, {.name = "br0"}) == EBUSY);
  const Link link = RouteSocket().get("eth0");
  CHECK(link.index == index);
  CHECK_FALSE(std::get<Tun>(link.data).owner);
}

TEST_CASE("nothing is left of one that was refused half-way") {
  const node::Fresh here;
  const NetNs ns = NetNs::current();
  CHECK(errno_of(ns, {.name = "eth0", .owner = 0xffffffffU}) == EINVAL);
  CHECK(errno_of(ns, {.name = ""}) == EINVAL);
  CHECK(errno_of(ns, {.name = "sixteen-bytes-xx"}) == EINVAL);
  CHECK(RouteSocket().links_of_kind("tun").empty());
}

TEST_CASE("a label that the kernel refuses is an error of the label, and leaves nothing") {
  const node::Fresh here;
  try {
    TunFile(NetNs::current()).create({.name = "eth0", .selinux_context = "no:such:label_t"});
    FAIL("it was accepted");
  } catch (const Error& e) {
    CHECK(node::contains(e.what(), "failed set socket label: write 'no:such:label_t'"));
  }
  CHECK_FALSE(RouteSocket().find("eth0"));
}

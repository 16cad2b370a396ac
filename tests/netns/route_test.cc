// In a network namespace of its own: where the node's routing leads. Needs root; exits with 77
// where it may not unshare.
#include "netlink/route/route.h"

#include <algorithm>
#include <cerrno>

#include "netlink/route/socket.h"
#include "tests/netns/node.h"

using namespace netlink;

namespace {

Ip ip(const char* text) { return *Ip::parse(text); }

struct Node : node::Fresh {
  Node() {
    REQUIRE(node::run(
        "ip link set lo up && ip link add name bridge0 type bridge && ip link set bridge0 up &&"
        "ip addr add 10.1.0.1/16 dev bridge0 && ip -6 addr add fd01::1/64 dev bridge0 nodad &&"
        "ip route add 192.0.2.0/24 via 10.1.0.9 &&"
        "ip -6 route add 2001:db8::/64 via fd01::9 &&"
        "ip route add unreachable 198.51.100.1 && ip route add blackhole 198.51.100.2 &&"
        "ip route add prohibit 198.51.100.3 && ip -6 route add unreachable fd02::1 &&"
        "ip -6 route add blackhole fd02::2 && ip -6 route add prohibit fd02::3"));
  }
};

}  // namespace

TEST_CASE("a route leads to a link, with or without a gateway") {
  const Node node;
  RouteSocket socket;
  const int bridge = socket.get("bridge0").index;
  for (const char* const place : {"10.1.2.3", "fd01::2", "192.0.2.7", "2001:db8::7"}) {
    const auto path = socket.path_to(ip(place));
    REQUIRE(path);
    CHECK(path->link == bridge);
    CHECK(!path->local);
  }
}

TEST_CASE("the node's own addresses are local") {
  const Node node;
  RouteSocket socket;
  const int lo = socket.get("lo").index;
  for (const char* const own : {"10.1.0.1", "127.0.0.1", "127.5.5.5", "::1", "fd01::1"}) {
    const auto path = socket.path_to(ip(own));
    REQUIRE(path);
    CHECK(path->local);
    CHECK(path->link == lo);
  }
  CHECK(!socket.path_to(ip("10.1.255.255"))->local);
}

TEST_CASE("what leads nowhere has no path") {
  const Node node;
  RouteSocket socket;
  for (const char* const nowhere : {"203.0.113.1", "198.51.100.1", "198.51.100.2", "198.51.100.3",
                                    "2001:db8:1::1", "fd02::1", "fd02::2", "fd02::3"}) {
    CAPTURE(nowhere);
    CHECK(!socket.path_to(ip(nowhere)));
  }
  CHECK(socket.path_to(ip("10.1.2.3")));  // the answers did not get mixed up
}

TEST_CASE("a link that is not there has no index, and takes no other's answer") {
  const Node node;
  RouteSocket socket;
  CHECK(!socket.find("nothing"));
  CHECK(!socket.find(4711));
  CHECK(socket.find("bridge0")->name == "bridge0");
  CHECK(socket.find(socket.get("bridge0").index)->name == "bridge0");
}

TEST_CASE("the other end of a veth is where the kernel says, not where its index is") {
  const Node node;
  RouteSocket socket;
  const NetNs pod_ns = NetNs::create();
  REQUIRE(node::run("ip link add veth0 type veth peer name veth1"));
  CHECK(!socket.get("veth0").peer_nsid);
  CHECK(!socket.nsid(pod_ns));
  socket.send(add(Veth{.end = {.name = "host", .mac = Mac::random()},
                       .peer = {.name = "eth0", .mac = Mac::random()},
                       .peer_ns = pod_ns}));
  const Link host = socket.get("host");
  REQUIRE(host.peer_nsid);
  CHECK(host.peer_nsid == socket.nsid(pod_ns));
  CHECK(host.peer_nsid != socket.nsid(NetNs::create()));
  CHECK(RouteSocket(pod_ns).get("eth0").index == host.peer_index);
}

static const node::TestFile kTests(__FILE__, [](doctest::Context&) {
  return node::unless("ip link show >/dev/null");
});

TEST_CASE("a thousand requests are sent, and the first refusal is reported after all of them") {
  const Node node;
  RouteSocket socket;
  const Link bridge = socket.get("bridge0");
  std::vector<RouteRequest> requests;
  for (int i = 0; i < 1000; ++i) {
    const std::string to = cat("10.7.", i / 250, ".", i % 250, "/32");
    // The hundredth by a gateway that nobody reaches.
    const auto gateway = i == 100 ? std::optional(ip("203.0.113.1")) : std::nullopt;
    requests.push_back(add(bridge, {.dst = *Cidr::parse(to), .gateway = gateway, .table = 7}));
  }
  CHECK_THROWS_WITH_AS(socket.send(std::move(requests)),
                       doctest::Contains("add route 10.7.0.100/32 via 203.0.113.1"), Error);
  const auto routes = socket.routes(Family::kIpv4);
  CHECK(std::count_if(routes.begin(), routes.end(),
                      [](const LinkRoute& one) { return one.table == 7; }) == 999);
}

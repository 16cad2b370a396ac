// In network namespaces of its own, a node's and a pod's: what the node remembers of the pod's
// connections. Needs root; exits with 77 where it may not unshare.
#include <arpa/inet.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "netlink/netns.h"
#include "netlink/nf/conntrack.h"
#include "netlink/route/socket.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"
#include "tests/netns/node.h"

using namespace netlink;
using namespace netlink::nf;
using node::enter_own_namespace;
using node::run;

namespace {

constexpr auto kV4 = Family::kIpv4;
constexpr auto kV6 = Family::kIpv6;
constexpr std::uint8_t kUdp = IPPROTO_UDP;

Ip ip(const char* text) { return *Ip::parse(text); }

NetNs fresh_namespace() {
  REQUIRE(enter_own_namespace());
  return NetNs::current();
}

// The test is on the node: 10.9.0.1, fd09::1, and behind port 53 another address of its own. The
// pod has 10.9.0.2 and fd09::2.
struct Node {
  NetNs pod = fresh_namespace();
  NetNs node = fresh_namespace();

  explicit Node(const std::string& rules = {}) {
    const Mac one = *Mac::parse("02:00:00:00:00:01");
    const Mac two = *Mac::parse("02:00:00:00:00:02");
    RouteSocket().send(add(Veth{{"veth0", one}, {"eth0", two}, pod}));
    REQUIRE(
        run("ip link set lo up && ip addr add 10.9.0.1/24 dev veth0 && ip link set veth0 up &&"
            "ip addr add fd09::1/64 dev veth0 nodad && ip addr add 10.9.5.5/32 dev lo &&"
            "ip addr add fd09:5::5/128 dev lo nodad"));
    REQUIRE(
        run("nft 'table ip n { chain c { type nat hook prerouting priority -100;"
            "udp dport 53 dnat to 10.9.5.5:5353; }; }; table ip6 n { chain c { type nat hook "
            "prerouting priority -100; udp dport 53 dnat to [fd09:5::5]:5353; }; }; " +
            rules + "'"));
    // A slow machine takes longer than the usual 30 s to open thousands of connections.
    REQUIRE(run("sysctl -qw net.netfilter.nf_conntrack_udp_timeout=600"));
    const NetNs::Entered there(pod);
    REQUIRE(
        run("ip addr add 10.9.0.2/24 dev eth0 && ip link set eth0 up &&"
            "ip addr add fd09::2/64 dev eth0 nodad && ip route add default via 10.9.0.1 &&"
            "ip -6 route add default via fd09::1"));
  }

  // Makes the pod send a datagram from its port to somewhere.
  void send(const Ip& to, std::uint16_t from_port, std::uint16_t to_port) const {
    const NetNs::Entered there(pod);
    const Fd fd(::socket(to.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM, 0));
    sockaddr_in6 v6{};
    sockaddr_in v4{};
    v6.sin6_family = AF_INET6;
    v4.sin_family = AF_INET;
    auto* const address =
        to.is_v4() ? reinterpret_cast<sockaddr*>(&v4) : reinterpret_cast<sockaddr*>(&v6);
    const socklen_t size = to.is_v4() ? sizeof v4 : sizeof v6;
    v4.sin_port = v6.sin6_port = htons(from_port);
    REQUIRE(::bind(fd.get(), address, size) == 0);
    v4.sin_port = v6.sin6_port = htons(to_port);
    std::memcpy(to.is_v4() ? static_cast<void*>(&v4.sin_addr) : &v6.sin6_addr, to.data(),
                to.size());
    REQUIRE(::sendto(fd.get(), "x", 1, 0, address, size) == 1);
  }
};

// What the kernel hands over, unfiltered by this code.
std::size_t handed_over(NfSocket& socket, const FlowFilter& filter) {
  std::size_t count = 0;
  socket.dump(encode_flow_query(filter, true), "list", [&](const Attributes&) { ++count; });
  return count;
}

// Waits until the kernel tracks so many; listing them takes long with sanitizers.
bool tracked(std::size_t count) {
  for (int tries = 0; tries < 500; ++tries) {
    const auto number = read_file("/proc/sys/net/netfilter/nf_conntrack_count");
    if (number && std::stoul(*number) >= count) return true;
    ::usleep(10'000);
  }
  return false;
}

// Once there are so many: a busy machine delivers what was sent a moment later.
std::vector<Flow> awaited(NfSocket& socket, const FlowFilter& filter, std::size_t count) {
  for (int tries = 0; tries < 200; ++tries) {
    if (auto seen = flows(socket, filter); seen.size() == count) return seen;
    ::usleep(10'000);
  }
  return flows(socket, filter);
}

}  // namespace

TEST_CASE("a connection is shown with where it really goes") {
  const Node node;
  NfSocket socket;
  node.send(ip("10.9.0.1"), 4000, 53);
  const auto seen = awaited(socket, {.family = kV4, .protocol = kUdp}, 1);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].original == Tuple{ip("10.9.0.2"), ip("10.9.0.1"), 4000, 53});
  CHECK(seen[0].reply == Tuple{ip("10.9.5.5"), ip("10.9.0.2"), 5353, 4000});
  CHECK(seen[0].protocol == kUdp);
  CHECK(seen[0].str() == "17 10.9.0.2:4000 -> 10.9.0.1:53");
}

TEST_CASE("filters choose by port, destination and who answers, in the kernel") {
  const Node node;
  NfSocket socket;
  node.send(ip("10.9.0.1"), 4000, 53);
  node.send(ip("10.9.5.5"), 4001, 53);
  node.send(ip("10.9.0.1"), 4002, 54);
  node.send(ip("10.9.0.1"), 4003, 123);
  node.send(ip("fd09::1"), 4004, 53);
  node.send(ip("fd09::1"), 4005, 54);
  REQUIRE(awaited(socket, {.family = kV4, .protocol = kUdp}, 4).size() == 4);
  REQUIRE(awaited(socket, {.family = kV6, .protocol = kUdp}, 2).size() == 2);
  const auto count = [&](const FlowFilter& filter) {
    const std::size_t found = flows(socket, filter).size();
    if (filter.family == kV4) CHECK(handed_over(socket, filter) == found);
    return found;
  };
  CHECK(count({.family = kV4, .protocol = kUdp}) == 4);
  CHECK(count({.family = kV4, .protocol = kUdp, .original_port = 53}) == 2);
  CHECK(count({.family = kV4, .protocol = kUdp, .original_destination = ip("10.9.0.1")}) == 3);
  CHECK(count({kV4, kUdp, 53, ip("10.9.0.1"), {}}) == 1);
  CHECK(count({.family = kV4, .protocol = kUdp, .reply_source = ip("10.9.5.5")}) == 2);
  CHECK(count({kV4, kUdp, 53, ip("10.9.0.1"), ip("10.9.5.5")}) == 1);
  CHECK(count({kV4, kUdp, 54, {}, ip("10.9.5.5")}) == 0);
  CHECK(count({.family = kV4, .protocol = IPPROTO_TCP}) == 0);
  CHECK(count({.family = kV6, .protocol = kUdp, .original_port = 53}) == 1);
  CHECK(count({kV6, kUdp, 53, ip("fd09::1"), ip("fd09:5::5")}) == 1);
  CHECK(count({kV6, kUdp, {}, {}, ip("fd09:5::6")}) == 0);
  CHECK(handed_over(socket, {.family = kV6, .protocol = kUdp, .original_port = 53}) == 1);
}

TEST_CASE("a filter that the kernel refuses is applied here") {
  const Node node;
  NfSocket socket;
  node.send(ip("10.9.0.1"), 4000, 53);
  REQUIRE(awaited(socket, {.family = kV4, .protocol = kUdp}, 1).size() == 1);
  const FlowFilter odd{kV4, kUdp, {}, {}, ip("fd09::1")};
  CHECK_THROWS_AS(handed_over(socket, odd), Error);
  CHECK(flows(socket, odd).empty());
  CHECK(flows(socket, {.family = kV4, .protocol = kUdp}).size() == 1);
}

TEST_CASE("exactly one connection is removed, and once") {
  const Node node;
  NfSocket socket;
  for (const char* const to : {"10.9.0.1", "fd09::1"}) {
    const Ip address = ip(to);
    const FlowFilter all{.family = address.family(), .protocol = kUdp};
    for (std::uint16_t port = 4000; port < 4010; ++port) node.send(address, port, 53);
    const auto before = awaited(socket, all, 10);
    REQUIRE(before.size() == 10);
    CHECK(remove(socket, before[3]));
    CHECK(!remove(socket, before[3]));
    const auto after = flows(socket, all);
    CHECK(after.size() == 9);
    CHECK(std::find(after.begin(), after.end(), before[3]) == after.end());
  }
}

TEST_CASE("a connection that follows another with its ports is another") {
  const Node node;
  NfSocket socket;
  node.send(ip("10.9.0.1"), 4000, 53);
  const auto old = awaited(socket, {.family = kV4, .protocol = kUdp}, 1);
  REQUIRE(old.size() == 1);
  REQUIRE(remove(socket, old[0]));
  Flow impostor = old[0];
  for (std::uint16_t port = 4001; port < 4005; ++port) node.send(ip("10.9.0.1"), port, 53);
  node.send(ip("10.9.0.1"), 4000, 53);
  for (const Flow& flow : awaited(socket, {.family = kV4, .protocol = kUdp}, 5)) {
    if (flow.original == impostor.original && flow.id == impostor.id) ++impostor.id;
  }
  CHECK(!remove(socket, impostor));
  CHECK(flows(socket, {.family = kV4, .protocol = kUdp}).size() == 5);
}

TEST_CASE("connections in zones are removed") {
  const char* rules = "";
  SUBCASE("of both directions") { rules = "ct zone set 7"; }
  SUBCASE("of the original direction") { rules = "ct original zone set 7"; }
  SUBCASE("of the reply") { rules = "ct reply zone set 7"; }
  const Node node(
      cat("table ip z { chain c { type filter hook prerouting priority -300; ", rules, "; }; }"));
  NfSocket socket;
  node.send(ip("10.9.0.1"), 4000, 53);
  const auto seen = awaited(socket, {.family = kV4, .protocol = kUdp, .original_port = 53}, 1);
  REQUIRE(seen.size() == 1);
  CHECK(remove(socket, seen[0]));
  CHECK(flows(socket, {.family = kV4, .protocol = kUdp}).empty());
}

TEST_CASE("thousands of connections are listed") {
  const Node node;
  NfSocket socket;
  const FlowFilter filter{.family = kV4, .protocol = kUdp, .original_port = 53};
  constexpr std::uint16_t kFirst = 10000, kCount = 3000;
  constexpr std::uint16_t kAtOnce = 100;  // what a queue on the way holds on a busy machine
  for (std::uint16_t sent = 0; sent < kCount;) {
    const std::uint16_t next = sent + kAtOnce;
    for (; sent < next; ++sent) {
      node.send(ip("10.9.0.1"), static_cast<std::uint16_t>(kFirst + sent), 53);
    }
    REQUIRE(tracked(sent));
  }
  REQUIRE(awaited(socket, filter, kCount).size() == kCount);
  for (const Flow& flow : flows(socket, filter)) CHECK(remove(socket, flow));
  CHECK(flows(socket, filter).empty());
}

TEST_CASE("without connections there are none") {
  REQUIRE(enter_own_namespace());
  NfSocket socket;
  CHECK(flows(socket, {.family = kV4, .protocol = kUdp}).empty());
  CHECK(!remove(socket, {kUdp, {ip("10.0.0.1"), ip("10.0.0.2"), 1, 2}, {}}));
}

static const node::TestFile kTests(__FILE__, [](doctest::Context&) {
  return node::unless("nft list ruleset >/dev/null");
});

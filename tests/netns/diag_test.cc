// In a network namespace of its own: who has a port there. Needs root; exits with 77 where it may
// not unshare.
#include "netlink/diag.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "netlink/types/fd.h"
#include "tests/netns/node.h"

using namespace netlink;

namespace {

struct Node : node::Fresh {
  Node() { REQUIRE(node::run("ip link set lo up")); }
};

struct Where {
  const char* address;
  std::uint16_t port;
};

sockaddr_in v4(const Where& where) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(where.port);
  REQUIRE(::inet_pton(AF_INET, where.address, &out.sin_addr) == 1);
  return out;
}

sockaddr_in6 v6(const Where& where) {
  sockaddr_in6 out{};
  out.sin6_family = AF_INET6;
  out.sin6_port = htons(where.port);
  REQUIRE(::inet_pton(AF_INET6, where.address, &out.sin6_addr) == 1);
  return out;
}

template <class Address>
Fd bound(const Address& address, int type, bool v6_only = false) {
  sockaddr whole;
  std::memcpy(&whole, &address, sizeof whole);
  Fd fd(::socket(whole.sa_family, type | SOCK_CLOEXEC, 0));
  REQUIRE(fd);
  const int reuse = type == SOCK_STREAM ? 1 : 0;  // as all servers do
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  const int on = v6_only ? 1 : 0;
  if (whole.sa_family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

template <class Address>
Fd listening(const Address& address, bool v6_only = false) {
  Fd fd = bound(address, SOCK_STREAM, v6_only);
  REQUIRE(::listen(fd.get(), 1) == 0);
  return fd;
}

std::uint64_t inode_of(const Fd& fd) {
  struct stat info;
  REQUIRE(::fstat(fd.get(), &info) == 0);
  return info.st_ino;
}

constexpr auto kV4 = Family::kIpv4;
constexpr auto kV6 = Family::kIpv6;
constexpr int kTcp = IPPROTO_TCP;
constexpr int kUdp = IPPROTO_UDP;

}  // namespace

TEST_CASE("a listener has its port, by name of its inode") {
  const Node node;
  const Fd http = listening(v4({"127.0.0.1", 80}));
  const Fd other = listening(v4({"127.0.0.1", 81}));
  const auto holders = port_holders(kV4, kTcp, 80);
  REQUIRE(holders.size() == 1);
  CHECK(holders[0] == Holder{.address = *Ip::parse("127.0.0.1"),
                             .port = 80,
                             .inode = inode_of(http),
                             .v6_only = false});
  CHECK(port_holders(kV4, kTcp, 82).empty());
  CHECK(port_holders(kV6, kTcp, 80).empty());
  CHECK(port_holders(kV4, kUdp, 80).empty());
}

TEST_CASE("what is bound without listening, or is connected, holds no port") {
  const Node node;
  const Fd server = listening(v4({"127.0.0.1", 80}));
  const Fd idle = bound(v4({"127.0.0.1", 81}), SOCK_STREAM);
  const Fd client = bound(v4({"127.0.0.1", 82}), SOCK_STREAM);
  const sockaddr_in to = v4({"127.0.0.1", 80});
  REQUIRE(::connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  const Fd accepted(::accept(server.get(), nullptr, nullptr));
  CHECK(port_holders(kV4, kTcp, 80).size() == 1);
  CHECK(port_holders(kV4, kTcp, 81).empty());
  CHECK(port_holders(kV4, kTcp, 82).empty());
  const Fd dns = bound(v4({"127.0.0.1", 53}), SOCK_DGRAM);
  const Fd resolver = bound(v4({"127.0.0.1", 4242}), SOCK_DGRAM);
  const sockaddr_in name_server = v4({"127.0.0.1", 53});
  REQUIRE(::connect(resolver.get(), reinterpret_cast<const sockaddr*>(&name_server),
                    sizeof name_server) == 0);
  REQUIRE(port_holders(kV4, kUdp, 53).size() == 1);
  CHECK(port_holders(kV4, kUdp, 53)[0].inode == inode_of(dns));
  CHECK(port_holders(kV4, kUdp, 4242).empty());
  CHECK(!can_bind(kV4, kUdp, {}, 4242));  // cheap, and not the last word
}

TEST_CASE("a socket of :: has the port for IPv4 too, unless it is for IPv6 alone") {
  const Node node;
  const Fd both = listening(v6({"::", 80}));
  const Fd alone = listening(v6({"::", 81}), true);
  const Fd mapped = listening(v6({"::ffff:127.0.0.1", 82}));
  const Fd both_udp = bound(v6({"::", 53}), SOCK_DGRAM);
  const Fd alone_udp = bound(v6({"::", 54}), SOCK_DGRAM, true);
  CHECK(port_holders(kV4, kTcp, 80).size() == 1);
  CHECK(port_holders(kV6, kTcp, 80).size() == 1);
  CHECK(!port_holders(kV6, kTcp, 80)[0].v6_only);
  CHECK(port_holders(kV4, kTcp, 81).empty());
  REQUIRE(port_holders(kV6, kTcp, 81).size() == 1);
  CHECK(port_holders(kV6, kTcp, 81)[0].v6_only);
  REQUIRE(port_holders(kV4, kTcp, 82).size() == 1);
  CHECK(port_holders(kV4, kTcp, 82)[0].address.str() == "127.0.0.1");
  CHECK(port_holders(kV6, kTcp, 82).empty());
  CHECK(port_holders(kV4, kUdp, 53).size() == 1);
  CHECK(port_holders(kV4, kUdp, 54).empty());
  CHECK(!can_bind(kV4, kTcp, {}, 80));
  CHECK(can_bind(kV4, kTcp, {}, 81));
  CHECK(!can_bind(kV6, kTcp, {}, 81));
  CHECK(!can_bind(kV4, kUdp, {}, 53));
}

TEST_CASE("a port is free, or taken on one address, or on all") {
  const Node node;
  CHECK(can_bind(kV4, kTcp, {}, 80));
  CHECK(can_bind(kV6, kTcp, {}, 80));
  const Fd one = listening(v4({"127.0.0.1", 80}));
  CHECK(!can_bind(kV4, kTcp, {}, 80));
  CHECK(!can_bind(kV4, kTcp, Ip::parse("127.0.0.1"), 80));
  CHECK(can_bind(kV4, kTcp, Ip::parse("127.0.0.2"), 80));
  CHECK(can_bind(kV6, kTcp, {}, 80));
  CHECK(can_bind(kV6, kTcp, Ip::parse("::1"), 80));
  CHECK(can_bind(kV4, kUdp, {}, 80));
  // Of nobody: an address that is elsewhere, a protocol that is nowhere.
  CHECK(can_bind(kV4, kTcp, Ip::parse("192.0.2.1"), 80));
  CHECK(can_bind(kV4, 254, {}, 80));
}

TEST_CASE("an ended connection leaves its port free") {
  const Node node;
  {
    const Fd server = listening(v4({"127.0.0.1", 80}));
    const Fd client = bound(v4({"127.0.0.1", 82}), SOCK_STREAM);
    const sockaddr_in to = v4({"127.0.0.1", 80});
    REQUIRE(::connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
    Fd accepted(::accept(server.get(), nullptr, nullptr));
    accepted.reset();  // the first to close is the one that waits
  }
  CHECK(can_bind(kV4, kTcp, {}, 80));
  CHECK(port_holders(kV4, kTcp, 80).empty());
}

TEST_CASE("a protocol without diagnosis has no holders") {
  const Node node;
  CHECK(port_holders(kV4, 254, 80).empty());
  CHECK(port_holders(kV6, IPPROTO_SCTP, 80).empty());
}

static const node::TestFile kTests(__FILE__, [](doctest::Context&) {
  return node::unless("ip link set lo up");
});

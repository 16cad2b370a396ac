#include "libcni/daemon/unix_socket.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "libcni/common/error.h"
#include "tests/unit/surroundings.h"

using std::chrono::steady_clock;

TEST_CASE("a path of a socket has at most 107 bytes") {
  CHECK(std::string(cni::socket_address(std::string(107, 'x')).sun_path).size() == 107);
  for (const std::size_t size : {0UL, 108UL}) {
    CHECK_THROWS_AS(cni::socket_address(std::string(size, 'x')), cni::Error);
  }
}

TEST_CASE(
    "a connection fails at once without a listener, and waits as long as its backlog is full") {
  const surroundings::Folder folder;
  const std::string path = folder.file("socket");
  CHECK_FALSE(cni::connect_to(path, steady_clock::now()));
  CHECK(errno == ENOENT);
  const auto address = cni::socket_address(path);
  netlink::Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener.get(), 0) == 0);
  const netlink::Fd first = cni::connect_to(path, steady_clock::now());
  CHECK(cni::has_trusted_peer(first.get()));
  CHECK(cni::peer_of(first.get()).pid == ::getpid());
  const auto begun = steady_clock::now();
  CHECK_FALSE(cni::connect_to(path, begun + std::chrono::milliseconds(50)));
  CHECK(errno == EAGAIN);
  CHECK(steady_clock::now() - begun >= std::chrono::milliseconds(50));
  listener.reset();
  CHECK_FALSE(cni::connect_to(path, steady_clock::now()));
  CHECK(errno == ECONNREFUSED);
}

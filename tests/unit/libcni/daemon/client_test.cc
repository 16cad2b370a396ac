#include "libcni/daemon/client.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "libcni/daemon/listener.h"
#include "netlink/types/error.h"
#include "tests/unit/surroundings.h"

using std::chrono::milliseconds;

namespace {

// The errno value of an exchange with a daemon that answers so; 0: the answer is "pong".
int outcome(const std::string& answer, bool ends = false) {
  const surroundings::Folder dir;
  const cni::Listener listener(dir.file("socket"));
  std::thread daemon([&] {
    netlink::Fd fd;
    while (!fd) fd = listener.accept();
    ::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    if (!ends) std::this_thread::sleep_for(milliseconds(100));
  });
  int out = 0;
  try {
    const std::string said = cni::exchange_line(listener.path(), "ping\n", milliseconds(50), 8);
    CHECK(said == "pong");
  } catch (const netlink::Error& e) {
    out = e.error();
  }
  daemon.join();
  return out;
}

}  // namespace

TEST_CASE("an answer is a line, which does not come too late nor is too long") {
  CHECK(outcome("pong\nand more") == 0);
  CHECK(outcome("pong") == ETIMEDOUT);
  CHECK(outcome("pongpongpong") == EMSGSIZE);
  CHECK(outcome("po", true) == ECONNRESET);
  try {
    cni::exchange_line("/nonexistent/socket", "ping\n", milliseconds(50), 8);
    FAIL("nobody listens");
  } catch (const netlink::Error& e) {
    CHECK(e.error() == ENOENT);
  }
}

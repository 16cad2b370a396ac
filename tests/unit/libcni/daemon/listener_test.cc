#include "libcni/daemon/listener.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "libcni/common/error.h"
#include "libcni/daemon/acceptor.h"
#include "libcni/daemon/unix_socket.h"
#include "tests/unit/surroundings.h"

using cni::Listener;
using std::chrono::milliseconds;

namespace {

netlink::Fd connected(const std::string& path) {
  return cni::connect_to(path, std::chrono::steady_clock::now());
}

std::size_t names_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                                std::filesystem::directory_iterator()));
}

}  // namespace

TEST_CASE("a listener is its user's alone, and takes the path over from another one") {
  const surroundings::Folder dir;
  const std::string path = dir.file("made/socket");
  std::optional<Listener> first(path);
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(first->path() == path);
  Listener second(path);
  CHECK(names_in(dir.file("made")) == 1);
  const auto client = connected(path);
  CHECK(client);
  CHECK_FALSE(first->accept());
  CHECK(second.accept());
  first.reset();  // the file is the second's
  CHECK(connected(path));
  CHECK(cni::has_listener(path));
  second = Listener(dir.file("made/other"));
  CHECK(names_in(dir.file("made")) == 1);
  CHECK_THROWS_AS(Listener(dir.file(std::string(200, 'x'))), cni::Error);
}

TEST_CASE("a listener whose file was removed is lost, unless another one has the path") {
  const surroundings::Folder dir;
  const Listener one(dir.file("socket"));
  CHECK_FALSE(one.is_lost());
  ::unlink(one.path().c_str());
  CHECK(one.is_lost());
  std::ofstream(one.path()) << "no socket";
  CHECK(one.is_lost());
  const Listener other(one.path());
  CHECK_FALSE(one.is_lost());
}

TEST_CASE("an acceptor listens again where its socket was removed") {
  const surroundings::Folder dir;
  const std::string path = dir.file("socket");
  cni::EventLoop loop;
  int accepted = 0;
  cni::Acceptor acceptor(loop, Listener(path),
                         {.accepted =
                              [&](const netlink::Fd& fd) {
                                CHECK(fd);
                                if (++accepted == 2) return loop.stop();
                                ::unlink(path.c_str());
                              },
                          .again = [](const std::string& at) { return Listener(at); },
                          .lost = [](const std::exception&) { FAIL("lost"); }});
  const auto first = connected(path);
  netlink::Fd second;
  const std::function<void()> connect = [&] {
    if (accepted == 1 && !second) second = connected(path);  // to the new socket
    loop.after(milliseconds(50), &second, connect);
  };
  connect();
  loop.run([](const std::exception& e) { FAIL(std::string(e.what())); });
  CHECK(accepted == 2);
}

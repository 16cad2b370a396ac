#include <doctest/doctest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "libcni/daemon/unix_socket.h"
#include "plugins/devices/agent/kubelet/endpoint.h"
#include "plugins/devices/agent/kubelet/limits.h"
#include "plugins/devices/agent/worker.h"
#include "tests/unit/surroundings.h"

using devices::clean;
using devices::Endpoint;
using devices::Worker;
using std::chrono::milliseconds;

TEST_CASE("texts of the kubelet are printable and short") {
  CHECK(clean("no such pod") == "no such pod");
  CHECK(clean("a\nb\x1b[31m\xff") == "a?b?[31m?");
  CHECK(clean(std::string(201, 'x')) == std::string(200, 'x') + "...");
}

TEST_CASE("sockets of two resources have different names, which are short") {
  const std::string one = Endpoint::prefix("vendor.example/nic");
  CHECK(one.compare(0, 13, "patchbay-nic-") == 0);
  CHECK(one != Endpoint::prefix("other.example/nic"));
  const std::string longest = Endpoint::prefix("vendor.example/" + std::string(63, 'x'));
  CHECK(longest.size() < 50);
  CHECK(Endpoint::prefix("vendor.example/a.b_c").find("a-b-c") != std::string::npos);
}

TEST_CASE("a socket's name says which process made it") {
  const std::string prefix = Endpoint::prefix("vendor.example/nic");
  CHECK(Endpoint::own_instance().size() == 6);
  CHECK(Endpoint::own_instance() == Endpoint::own_instance());
  CHECK(Endpoint::instance_of(prefix + "0a1b2c01.sock", prefix) == "0a1b2c");
  CHECK(Endpoint::instance_of("kubelet.sock", prefix).empty());
  CHECK(Endpoint::instance_of("nics.example-0a1b2c01-reg.sock", "nics.example-") == "0a1b2c");
  // Those of drivers whose names begin with that of this one.
  for (const char* const other : {"lab-0a1b2c01-reg.sock", "abcdef12-0a1b2c01-reg.sock",
                                  "abcdef12.example-reg.sock", "reg.sock", "abcdef-reg.sock"}) {
    CHECK(Endpoint::instance_of(std::string("nics.example-") + other, "nics.example-").empty());
  }
}

// A socket whose file stays when its process was killed.
netlink::Fd listen_at(const std::string& path) {
  const auto address = cni::socket_address(path);
  netlink::Fd out(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(out.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(out.get(), 1) == 0);
  return out;
}

TEST_CASE("an instance of the agent ends when it has had no socket for a moment") {
  const surroundings::Folder dir;
  const std::string name = Endpoint::prefix("vendor.example/nic");
  devices::Instances others({dir.path(), "/nonexistent"}, name);
  const auto now = devices::Instances::Clock::now();
  const auto ended = [&](int after) {
    others.look(now + milliseconds(after));
    return others.last_end() != devices::Instances::Clock::time_point{};
  };
  auto own = listen_at(dir.path() + "/" + name + Endpoint::own_instance() + "01.sock");
  auto first = listen_at(dir.path() + "/" + name + "0a1b2c01.sock");
  CHECK_FALSE(ended(0));
  CHECK(others.any());
  own.reset();
  CHECK_FALSE(ended(1'000));
  first.reset();  // its process was killed: the file stays
  CHECK_FALSE(ended(2'000));
  const auto second = listen_at(dir.path() + "/" + name + "0a1b2c02.sock");
  CHECK_FALSE(ended(2'100));
  CHECK_FALSE(ended(3'000));
  std::filesystem::remove(dir.path() + "/" + name + "0a1b2c02.sock");
  CHECK_FALSE(ended(4'000));
  CHECK(others.any());
  CHECK(ended(4'300));
  CHECK(others.last_end() == now + milliseconds(4'000));
  CHECK_FALSE(others.any());
  CHECK_FALSE(std::filesystem::exists(dir.path() + "/" + name + "0a1b2c01.sock"));

  // It was seen before it listened, and next after its end.
  {
    const netlink::Fd bound(::socket(AF_UNIX, SOCK_STREAM, 0));
    const auto address = cni::socket_address(dir.path() + "/" + name + "ffffff01.sock");
    REQUIRE(::bind(bound.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  others.look(now + milliseconds(5'000));
  others.look(now + milliseconds(5'400));
  CHECK(others.any());
  others.look(now + milliseconds(5'500));
  CHECK(others.last_end() == now + milliseconds(5'000));
  CHECK_FALSE(std::filesystem::exists(dir.path() + "/" + name + "ffffff01.sock"));
  CHECK(std::filesystem::exists(dir.path() + "/" + name + Endpoint::own_instance() + "01.sock"));
}

TEST_CASE("a socket that nobody listens on is removed, however long ago its process was killed") {
  using std::chrono::seconds;
  const surroundings::Folder dir;
  const std::string name = Endpoint::prefix("vendor.example/nic");
  const auto path = [&](const char* digits) { return dir.path() + "/" + name + digits + ".sock"; };
  const auto date = [](const std::string& file, seconds age) {
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - age);
  };
  const auto living = listen_at(path("aaaaaa01"));
  date(path("aaaaaa01"), seconds(30));
  listen_at(path("bbbbbb01"));
  date(path("bbbbbb01"), seconds(30));
  listen_at(path("cccccc01"));
  date(path("cccccc01"), -seconds(3'600));  // a clock that was set back
  std::ofstream(path("dddddd01")) << "no socket";
  date(path("dddddd01"), seconds(30));
  devices::Instances others({dir.path()}, name);
  const auto now = devices::Instances::Clock::now();
  for (int after = 0; after < 3'000; after += 500) others.look(now + milliseconds(after));
  CHECK(std::filesystem::exists(path("aaaaaa01")));
  CHECK_FALSE(std::filesystem::exists(path("bbbbbb01")));
  CHECK_FALSE(std::filesystem::exists(path("cccccc01")));
  CHECK(std::filesystem::exists(path("dddddd01")));
  CHECK(others.last_end() == devices::Instances::Clock::time_point{});
}

TEST_CASE("a worker does one job after the other, and refuses more than may wait") {
  std::mutex gate;
  std::atomic<int> done = 0;
  std::atomic<bool> runs = false;
  Worker worker(2);
  gate.lock();
  CHECK(worker.post([&] {
    runs = true;
    const std::lock_guard wait(gate);
    ++done;
  }));
  for (int n = 0; n < 500 && !runs; ++n) std::this_thread::sleep_for(milliseconds(10));
  CHECK(worker.post([&] { ++done; }));
  CHECK(worker.post([&] { ++done; }));
  CHECK_FALSE(worker.post([&] { ++done; }));
  worker.post_always([&] { ++done; });
  gate.unlock();
  worker.stop();
  CHECK(done == 4);
  CHECK_FALSE(worker.post([&] { ++done; }));
  CHECK(done == 4);
}

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "plugins/devices/agent/kubelet/clean.h"
#include "plugins/devices/agent/kubelet/endpoint.h"
#include "plugins/devices/agent/kubelet/folder_watch.h"
#include "plugins/devices/agent/kubelet/worker.h"
#include "tests/unit/surroundings.h"

using devices::clean;
using devices::Endpoint;
using devices::FolderWatch;
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

TEST_CASE("a worker does one job after the other, and refuses more than may wait") {
  std::mutex gate;
  std::atomic<int> done = 0;
  Worker worker(2);
  gate.lock();
  CHECK(worker.post([&] {
    const std::lock_guard wait(gate);
    ++done;
  }));
  for (int n = 0; n < 500 && worker.waiting() > 0; ++n)
    std::this_thread::sleep_for(milliseconds(10));
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

TEST_CASE("a watch of folders reports what was removed, also in a folder that is made later") {
  const surroundings::Folder dir;
  const std::string later = dir.path() + "/later";
  FolderWatch watch({dir.path(), later});
  watch.wait(milliseconds(0));
  std::filesystem::create_directory(later);
  watch.wait(milliseconds(5000));
  CHECK(watch.wait(milliseconds(0)).empty());
  std::ofstream(later + "/a.sock") << "x";
  watch.wait(milliseconds(5000));
  std::filesystem::remove(later + "/a.sock");
  CHECK(watch.wait(milliseconds(5000)) == std::vector<std::string>{"a.sock"});
}

TEST_CASE("a watch of folders ends when it is woken") {
  FolderWatch watch({"/nonexistent"});
  const auto begun = std::chrono::steady_clock::now();
  watch.wake();
  CHECK(watch.wait(milliseconds(5000)).empty());
  CHECK(std::chrono::steady_clock::now() - begun < milliseconds(4000));
}

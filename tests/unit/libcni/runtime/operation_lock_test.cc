#include "libcni/runtime/operation_lock.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

#include "libcni/common/error.h"
#include "tests/unit/surroundings.h"

using cni::AttachmentKey;
using cni::Cache;
using cni::Code;
using cni::Error;
using cni::OperationLock;
using std::chrono::milliseconds;
using surroundings::Folder;

namespace {

const OperationLock::Wait kNow{.limit = milliseconds(0)};
const OperationLock::Wait kLong{.limit = milliseconds(10'000)};

struct Locks {
  Folder folder;
  Cache cache{folder.file("cni")};

  auto attachment(const char* network, const char* container, const char* ifname = "eth0") const {
    return [this, key = AttachmentKey{network, container, ifname}](const OperationLock::Wait& w) {
      return OperationLock::of_attachment(cache, key, w);
    };
  }
  auto network(const char* name) const {
    return [this, name](const OperationLock::Wait& w) {
      return OperationLock::of_network(cache, name, w);
    };
  }
  auto container(const char* network, const char* id) const {
    return [this, key = AttachmentKey{network, id, "eth0"}](const OperationLock::Wait& w) {
      return OperationLock::of_container(cache, key, w);
    };
  }
};

template <class Take>
bool is_free(Take&& take) {
  try {
    take(kNow);
    return true;
  } catch (const Error& e) {
    CHECK(e.code() == Code::kTryAgainLater);
    return false;
  }
}

}  // namespace

TEST_CASE("lock: one operation on a container at a time, in whatever network") {
  const Locks locks;
  const auto held = locks.attachment("net", "c1")(kNow);
  CHECK_FALSE(is_free(locks.attachment("net", "c1")));
  CHECK_FALSE(is_free(locks.attachment("net", "c1", "eth1")));
  CHECK_FALSE(is_free(locks.attachment("net2", "c1")));
  CHECK_FALSE(is_free(locks.container("net", "c1")));
  CHECK(is_free(locks.attachment("net", "c2")));
  CHECK(is_free(locks.attachment("c1", "net")));
}

TEST_CASE("lock: collection is alone in its network") {
  const Locks locks;
  {
    const auto held = locks.network("net")(kNow);
    CHECK_FALSE(is_free(locks.network("net")));
    CHECK_FALSE(is_free(locks.attachment("net", "c1")));
    CHECK(is_free(locks.container("net", "c1")));
    CHECK(is_free(locks.network("net2")));
    CHECK(is_free(locks.attachment("net2", "c1")));
  }
  const auto held = locks.attachment("net", "c1")(kNow);
  CHECK_FALSE(is_free(locks.network("net")));
  CHECK(is_free(locks.network("net2")));
}

TEST_CASE("lock: it is free again when its owner has gone, or has been killed") {
  const Locks locks;
  { const auto held = locks.attachment("net", "c1")(kNow); }
  CHECK(is_free(locks.network("net")));
  auto [reads, writes] = surroundings::make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto held = locks.attachment("net", "c1")(kNow);
    netlink::write_all(writes.get(), "x", "a pipe");
    ::pause();
  }
  char byte = 0;
  CHECK(::read(reads.get(), &byte, 1) == 1);
  CHECK_FALSE(is_free(locks.attachment("net", "c1")));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(is_free(locks.attachment("net", "c1")));
}

TEST_CASE("lock: who waits gets it") {
  const Locks locks;
  std::optional<OperationLock> held = locks.attachment("net", "c1")(kNow);
  std::atomic<bool> got = false;
  std::thread other([&] {
    locks.attachment("net", "c1")(kLong);
    got = true;
  });
  std::this_thread::sleep_for(milliseconds(50));
  CHECK_FALSE(got);
  held.reset();
  other.join();
  CHECK(got);
}

TEST_CASE("lock: a collection that waits is not overtaken by new operations") {
  const Locks locks;
  std::optional<OperationLock> held = locks.attachment("net", "c1")(kNow);
  std::thread collector([&] { locks.network("net")(kLong); });
  // From some moment on it waits, and the second operation has to wait behind it.
  bool behind = false;
  for (int i = 0; i < 500 && !behind; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    behind = !is_free(locks.attachment("net", "c2"));
  }
  CHECK(behind);
  held.reset();
  collector.join();
  CHECK(is_free(locks.attachment("net", "c2")));
}

TEST_CASE("lock: the complaint says what is in the way, and waiting can be stopped") {
  const Locks locks;
  const auto held = locks.attachment("net", "c1")(kNow);
  CHECK_THROWS_WITH_AS(
      locks.attachment("net", "c1")({.limit = milliseconds(1)}),
      doctest::Contains("lock container 'c1': not free after 0 s, another operation on it is "
                        "running: process "),
      Error);
  auto [reads, writes] = surroundings::make_pipe();
  netlink::write_all(writes.get(), "x", "a pipe");
  CHECK_THROWS_WITH_AS(
      locks.network("net")({.limit = milliseconds(60'000), .stop_fd = reads.get()}),
      "lock network 'net': stopped while waiting", Error);
}

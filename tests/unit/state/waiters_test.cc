#include "plugins/state/waiters.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <list>

#include "tests/unit/surroundings.h"

namespace blocks {
namespace {

TEST_CASE("waiting ADDs are counted by set, and their file stays empty") {
  const surroundings::Folder folder;
  const auto dir = cni::Dir::create(folder.path());
  CHECK_FALSE(are_waiting(dir, "net"));
  std::list<Waiter> all;
  for (int i = 0; i < 200; ++i) REQUIRE(all.emplace_back(dir, "net").wait_for({0}));
  REQUIRE(all.emplace_back(dir, "net").wait_for({0, 2}));
  CHECK(count_waiting(dir, "net", 0) == 201);
  CHECK(count_waiting(dir, "net", 1) == 0);
  CHECK(count_waiting(dir, "net", 2) == 1);
  CHECK(count_waiting(dir, "other", 0) == 0);
  all.back().wait_for({1});  // another set by now
  CHECK(count_waiting(dir, "net", 0) == 200);
  CHECK(count_waiting(dir, "net", 1) == 1);
  all.clear();
  CHECK_FALSE(are_waiting(dir, "net"));
  CHECK(dir.read("net.waiting")->content.empty());
}

TEST_CASE("an ADD for a fixed address waits in no set") {
  const surroundings::Folder folder;
  const auto dir = cni::Dir::create(folder.path());
  Waiter one(dir, "net");
  REQUIRE(one.wait_for({}));
  CHECK(are_waiting(dir, "net"));
  CHECK(count_waiting(dir, "net", 0) == 0);
}

TEST_CASE("more waiting ADDs than are counted do not take for ever") {
  const surroundings::Folder folder;
  const auto dir = cni::Dir::create(folder.path());
  Waiter one(dir, "net");
  REQUIRE(one.wait_for(std::vector<std::size_t>(kMaxWaiting + 100, 0)));
  CHECK(count_waiting(dir, "net", 0) == kMaxWaiting);
}

TEST_CASE("an ADD whose file cannot be opened waits unseen") {
  const surroundings::Folder folder;
  const auto dir = cni::Dir::create(folder.path());
  std::filesystem::create_symlink("elsewhere", folder.path() + "/net.waiting");
  Waiter one(dir, "net");
  CHECK_FALSE(one.wait_for({0}));
  CHECK_FALSE(are_waiting(dir, "net"));
  CHECK(count_waiting(dir, "net", 0) == 0);
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/elsewhere"));
}

TEST_CASE("an ADD that is killed waits no more") {
  const surroundings::Folder folder;
  const auto dir = cni::Dir::create(folder.path());
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Waiter one(dir, "net");
    one.wait_for({0});
    [[maybe_unused]] const auto told = ::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  char told = 0;
  REQUIRE(::read(ready[0], &told, 1) == 1);
  CHECK(count_waiting(dir, "net", 0) == 1);
  ::kill(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(count_waiting(dir, "net", 0) == 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace blocks

#include "libcni/common/lock.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "libcni/common/error.h"
#include "tests/unit/surroundings.h"

namespace {

using std::chrono::milliseconds;

bool is_free(const std::string& thing, const cni::Dir& dir) try {
  cni::take_lock_of(thing, dir, milliseconds(0));
  return true;
} catch (const cni::Error& e) {
  CHECK(e.code() == cni::Code::kTryAgainLater);
  return false;
}

TEST_CASE("the lock of one thing leaves the others free, and is free with its descriptor") {
  const surroundings::Folder folder;
  const auto dir = cni::Dir::open(folder.path()).value();
  {
    const auto held = cni::take_lock_of("one", dir);
    CHECK_FALSE(is_free("one", dir));
    CHECK(is_free("two", dir));
    const auto whole = cni::take_lock(dir, milliseconds(0));  // flock(2) of the same file
  }
  CHECK(is_free("one", dir));
}

TEST_CASE("the file of locks is one, which root alone can open") {
  const surroundings::Folder folder;
  const auto dir = cni::Dir::open(folder.path()).value();
  for (const char* thing : {"one", "two"}) cni::take_lock_of(thing, dir);
  CHECK(dir.names() == std::vector<std::string>{"lock"});
  struct stat info {};
  REQUIRE(::stat(folder.file("lock").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
}

TEST_CASE("a symbolic link in the place of the file is not followed") {
  const surroundings::Folder folder;
  const auto dir = cni::Dir::open(folder.path()).value();
  REQUIRE(dir.make_link("lock", folder.file("elsewhere")));
  CHECK_THROWS_AS(cni::take_lock_of("one", dir), netlink::Error);
  CHECK_FALSE(dir.has("elsewhere"));
}

}  // namespace

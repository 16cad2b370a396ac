#include "libcni/daemon/folder_watch.h"

#include <doctest/doctest.h>
#include <sys/inotify.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/surroundings.h"

using cni::FolderWatch;
using Names = std::vector<std::string>;

TEST_CASE("a watch of folders has the names that changed, also in a folder that is made later") {
  const surroundings::Folder dir;
  const std::string later = dir.file("later");
  FolderWatch watch(IN_CREATE | IN_DELETE);
  CHECK_FALSE(watch.add(later));
  CHECK(errno == ENOENT);
  CHECK(watch.is_new(dir.path()));
  CHECK_FALSE(watch.is_new(dir.path()));
  CHECK(watch.take() == Names{});
  std::filesystem::create_directory(later);
  CHECK(watch.take() == Names{"later"});
  CHECK(watch.is_new(later));
  std::ofstream(later + "/a.sock") << "x";
  CHECK(watch.take() == Names{"a.sock"});
  std::filesystem::remove_all(later);
  CHECK_FALSE(watch.take());  // the folder is gone
  CHECK(watch.take() == Names{});
  std::filesystem::create_directory(later);
  CHECK(watch.is_new(later));
}

#include "tests/unit/surroundings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "netlink/types/error.h"

namespace surroundings {

using netlink::Fd;

Fd file_with(std::string_view text) {
  Fd fd(::memfd_create("test", MFD_CLOEXEC));
  if (!fd) throw netlink::Error("make a file in memory", errno);
  netlink::write_all(fd.get(), text, "memory");
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

std::string content_of(const Fd& file) {
  ::lseek(file.get(), 0, SEEK_SET);
  return netlink::read_all(file.get(), "memory");
}

std::string corpus(const std::string& name) {
  const auto tests = std::filesystem::path(__FILE__).parent_path().parent_path();
  return netlink::read_file((tests / "fuzz/corpus" / name).string()).value();
}

std::pair<Fd, Fd> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw netlink::Error("make a pipe", errno);
  return {Fd(fds[0]), Fd(fds[1])};
}

Fd open_for_writing(const std::string& path) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) throw netlink::Error(netlink::cat("open '", path, "'"), errno);
  return fd;
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "patchbay-unit-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw netlink::Error("make a folder", errno);
  path_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Folder::script(std::string_view name, std::string_view body) const {
  std::string at = file(name);
  netlink::write_all(open_for_writing(at).get(), netlink::cat("#!/bin/sh\n", body, "\n"), at);
  if (::chmod(at.c_str(), 0755) != 0) throw netlink::Error("chmod", errno);
  return at;
}

}  // namespace surroundings

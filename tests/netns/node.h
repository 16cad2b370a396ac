#pragma once

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "netlink/netns.h"
#include "netlink/types/error.h"

/// What tests on the kernel have in common: a network namespace of their own, and the programs that
/// see it.
namespace node {

/// Leaves the one of before, if there was one. False: not permitted.
inline bool enter_own_namespace() {
  static std::optional<netlink::NetNs::Entered> entered;
  try {
    entered.emplace(netlink::NetNs::create());
    return true;
  } catch (const netlink::Error&) {
    return false;
  }
}

/// A /run of its own from now on, so that nothing is kept in the node's. False: not permitted.
inline bool has_own_run() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", "/run", "tmpfs", 0, nullptr) == 0;
}

/// How often text has the part, which may not overlap itself.
inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline bool run(const std::string& command) { return std::system(command.c_str()) == 0; }

/// A fresh namespace per test: the last one is gone with what was in it.
struct Fresh {
  Fresh() { REQUIRE(enter_own_namespace()); }
};

/// Both outputs of a command.
inline std::string output_of(const std::string& command) {
  std::string out;
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer;
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    out.append(buffer.data(), size);
  }
  ::pclose(pipe);
  return out;
}

/// A file that is gone with its owner.
struct TextFile {
  explicit TextFile(const std::string& text) {
    const int fd = ::mkstemp(path.data());
    REQUIRE(fd >= 0);
    REQUIRE(::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    ::close(fd);
  }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  ~TextFile() { ::unlink(path.c_str()); }
  std::string path = "/tmp/patchbay_test.XXXXXX";
};

/// The tests of one file: x_test.cc has a static TestFile(__FILE__, ...). lacks() is called in the
/// network namespace that they get: what they need and is not here, empty if nothing; it may
/// exclude some of them.
struct TestFile {
  using Lacks = std::string (*)(doctest::Context&);
  TestFile(const std::string& path, Lacks lacks);
  std::string name;  // x
  Lacks lacks;
};

/// All of this executable.
inline std::vector<TestFile>& files() {
  static std::vector<TestFile> all;
  return all;
}

inline TestFile::TestFile(const std::string& path, Lacks l)
    : name(path.substr(path.rfind('/') + 1)), lacks(l) {
  name.resize(name.size() - std::string("_test.cc").size());
  files().push_back(*this);
}

/// For TestFile: the command, unless it works.
inline std::string unless(const std::string& command) { return run(command) ? "" : command; }

}  // namespace node

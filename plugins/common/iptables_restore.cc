#include "plugins/common/iptables_restore.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "libcni/error.h"
#include "netlink/types/fd.h"

namespace plugins {

namespace {

using cni::Code;
using netlink::cat;
using netlink::Fd;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLimit{30};

std::optional<std::string> find_program(const std::string& name) {
  const char* const path = ::secure_getenv("PATH");
  const std::string all = cat(path == nullptr ? "" : path, ":/usr/sbin:/sbin");
  for (std::size_t at = 0; at <= all.size();) {
    const std::size_t end = std::min(all.find(':', at), all.size());
    const std::string file = cat(all.substr(at, end - at), "/", name);
    if (end > at && ::access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  return std::nullopt;
}

// The plain names are links to a binary for one of the two: xtables-nft-multi, or
// xtables-legacy-multi (xtables-multi before there were two).
XtablesVariant variant_of(const std::string& file) {
  char real[PATH_MAX];
  if (::realpath(file.c_str(), real) == nullptr) return XtablesVariant::kNft;
  const std::string_view name = std::strrchr(real, '/');
  const bool legacy = name.find("legacy") != std::string_view::npos || name == "/xtables-multi";
  return legacy ? XtablesVariant::kLegacy : XtablesVariant::kNft;
}

// File actions of posix_spawn(3), freed with their scope.
struct Actions {
  ::posix_spawn_file_actions_t list;
  Actions() { ::posix_spawn_file_actions_init(&list); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
  ~Actions() { ::posix_spawn_file_actions_destroy(&list); }
  void give(int fd, int as) { ::posix_spawn_file_actions_adddup2(&list, fd, as); }
};

// A file without a name that holds text, to be read from the start.
Fd file_with(const std::string& text) {
  Fd fd(::memfd_create("rules", MFD_CLOEXEC));
  if (!fd) throw netlink::Error("make a file for iptables", errno);
  netlink::write_all(fd.get(), text, "rules");
  if (::lseek(fd.get(), 0, SEEK_SET) != 0) throw netlink::Error("rewind a file", errno);
  return fd;
}

pid_t start(const std::string& file, int in, int out) {
  std::string words[] = {file, "--noflush", "--wait=10"};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  Actions actions;
  actions.give(in, STDIN_FILENO);
  actions.give(out, STDOUT_FILENO);
  actions.give(out, STDERR_FILENO);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, file.c_str(), &actions.list, nullptr, argv, environ);
  if (error != 0) throw netlink::Error(cat("run '", file, "'"), error);
  return pid;
}

// What the program says, to its end; false where it goes on for longer than that.
bool listen(int fd, std::string& said) {
  const auto end = Clock::now() + kLimit;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return false;
    pollfd one{fd, POLLIN, 0};
    if (::poll(&one, 1, static_cast<int>(left.count())) <= 0) continue;
    char buffer[1024];
    const ssize_t size = ::read(fd, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return true;
    said.append(buffer, static_cast<std::size_t>(size));
  }
}

std::string on_one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

}  // namespace

std::optional<RestoreTool> find_restore(netlink::Family family) {
  const bool v4 = family == netlink::Family::kIpv4;
  const auto file = find_program(v4 ? "iptables-restore" : "ip6tables-restore");
  if (!file) return std::nullopt;
  return RestoreTool{*file, variant_of(*file)};
}

std::optional<RestoreTool> find_legacy_restore(netlink::Family family) {
  const bool v4 = family == netlink::Family::kIpv4;
  if (const auto file = find_program(v4 ? "iptables-legacy-restore" : "ip6tables-legacy-restore")) {
    return RestoreTool{*file, XtablesVariant::kLegacy};
  }
  const auto plain = find_restore(family);
  if (plain && plain->variant == XtablesVariant::kLegacy) return plain;
  return std::nullopt;
}

void restore(const RestoreTool& tool, const std::string& rules) {
  const Fd input = file_with(rules);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw netlink::Error("make a pipe", errno);
  const Fd read(ends[0]);
  Fd write(ends[1]);
  const pid_t pid = start(tool.file, input.get(), write.get());
  write.reset();
  std::string said;
  const bool ended = listen(read.get(), said);
  if (!ended) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended)
    throw cni::Error(Code::kTryAgainLater, cat("run '", tool.file, "': it took too long"));
  if (status == 0) return;
  constexpr int kLockHeld = 4;  // RESOURCE_PROBLEM of iptables
  const bool busy = WIFEXITED(status) && WEXITSTATUS(status) == kLockHeld;
  throw cni::Error(busy ? Code::kTryAgainLater : Code::kInternal,
                   cat("run '", tool.file, "': ", on_one_line(said)));
}

}  // namespace plugins

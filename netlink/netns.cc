#include "netlink/netns.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "netlink/types/error.h"
#include "netlink/visibility.h"

namespace netlink {

namespace {

constexpr const char* kOwn = "/proc/thread-self/ns/net";

// The one this thread is in, once it was asked for; only Entered and create() leave it.
thread_local std::optional<NetNs> here;

Fd open_path(const std::string& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}

// proc_ns_get_link() in fs/proc/namespaces.c asks ptrace_may_access().
Error not_opened(const std::string& path, int error) {
  const char* const hint = error == EACCES ? " (below /proc/PID/ns this needs CAP_SYS_PTRACE)" : "";
  return {cat("open network namespace '", path, "'", hint), error};
}

Error refusal(const char* operation, int error) {
  return {cat(operation, error == EPERM ? " (this needs CAP_SYS_ADMIN)" : ""), error};
}

// ioctl_ns(2): answers only on a namespace file.
bool is_netns(int fd) { return ::ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWNET; }

// Through a socket that is made in it: 10 us, where the way through /proc takes 30. Needs
// CAP_NET_ADMIN (sock_ioctl() in net/socket.c).
Fd own_by_socket() {
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return Fd(socket ? ::ioctl(socket.get(), SIOCGSKNS) : -1);
}

}  // namespace

NetNs NetNs::current() {
  if (!here) {
    Fd fd = own_by_socket();
    here = fd ? NetNs(std::move(fd)) : open(kOwn);
  }
  return *here;
}

NetNs NetNs::open(const std::string& path) {
  Fd fd = open_path(path);
  if (!fd) throw not_opened(path, errno);
  if (!is_netns(fd.get())) {
    throw Error(cat("open network namespace '", path, "'"), EINVAL,
                "the file is not a network namespace; its mount may be gone or not propagated");
  }
  return NetNs(std::move(fd));
}

std::optional<NetNs> NetNs::find(const std::string& path) {
  if (path.empty()) return std::nullopt;
  errno = 0;  // stays so for a namespace of another type
  Fd fd = open_path(path);
  if (fd && is_netns(fd.get())) return NetNs(std::move(fd));
  // These say nothing about what is there.
  constexpr int kNoAnswer[] = {EMFILE, ENFILE, ENOMEM, EPERM, EACCES, EIO, EINTR};
  if (std::ranges::find(kNoAnswer, errno) != std::end(kNoAnswer)) {
    throw not_opened(path, errno);
  }
  return std::nullopt;
}

bool NetNs::may_hide(const std::string& path) noexcept {
  struct stat about {};
  if (path.empty() || ::stat(path.c_str(), &about) == 0) return true;
  if (path.starts_with("/proc/")) return !sees_all_processes();
  const std::string folder = path.substr(0, path.rfind('/'));
  return ::stat(folder.c_str(), &about) != 0 || may_be_own(folder);
}

NetNs NetNs::create() {
  const Entered back_again(current());
  if (::unshare(CLONE_NEWNET) != 0) throw refusal("make a network namespace", errno);
  here.reset();
  return current();
}

std::string NetNs::Id::str() const { return cat(device, ":", inode); }

NetNs::Id NetNs::id() const {
  struct stat about {};
  if (::fstat(fd(), &about) != 0) throw Error("look at the network namespace", errno);
  return {about.st_dev, about.st_ino};
}

std::optional<NetNs::Id> NetNs::id_at(const std::string& path) noexcept {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 ? std::optional(Id{about.st_dev, about.st_ino})
                                           : std::nullopt;
}

bool NetNs::is_current(const std::string& path) {
  const auto there = id_at(path);
  return there && *there == current().id();
}

std::optional<unsigned long> NetNs::foreign_file_system(const std::string& path) {
  struct statfs about {};
  if (::statfs(path.c_str(), &about) != 0) throw Error(cat("statfs '", path, "'"), errno);
  const auto type = static_cast<unsigned long>(about.f_type);
  if (type == NSFS_MAGIC || type == PROC_SUPER_MAGIC) return std::nullopt;
  return type;
}

NetNs::Entered::Entered(const NetNs& ns) : back_(current()) {
  if (::setns(ns.fd(), CLONE_NEWNET) != 0) throw refusal("enter the network namespace", errno);
  here = ns;
}

NetNs::Entered::~Entered() {
  if (::setns(back_.fd(), CLONE_NEWNET) != 0) std::abort();
  here = back_;
}

}  // namespace netlink

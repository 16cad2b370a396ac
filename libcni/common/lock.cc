#include "libcni/common/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "libcni/common/error.h"
#include "libcni/common/file_users.h"
#include "libcni/common/hash.h"
#include "libcni/common/phase.h"

namespace cni {

namespace {

using netlink::cat;
using netlink::Fd;

bool try_lock(const Fd& fd, const std::string& path) {
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK || errno == EINTR) return false;
  throw netlink::Error(cat("lock '", path, "'"), errno);
}

Error out_of_time(const std::string& path, int fd, std::chrono::milliseconds waited) {
  std::string held;
  for (const FileUser& one : lock_holders(fd)) {
    held += cat(held.empty() ? ", held by " : ", ", one.str());
  }
  return {Code::kTryAgainLater,
          cat("lock '", path, "': not free after ", waited.count() / 1000, " s", held)};
}

bool try_byte(const Fd& fd, const std::string& path, off_t byte) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  if (::fcntl(fd.get(), F_OFD_SETLK, &lock) == 0) return true;
  if (errno == EAGAIN || errno == EACCES || errno == EINTR) return false;
  throw netlink::Error(cat("lock '", path, "'"), errno);
}

// A file of that name. O_NONBLOCK: a FIFO, which can be locked too, is not waited for.
Fd open_in(const Dir& dir, const std::string& name, int access, mode_t mode) {
  constexpr int kFlags = O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Fd fd(::openat(dir.fd(), name.c_str(), access | kFlags, mode));
  if (!fd) throw netlink::Error(cat("open '", dir.path(), "/", name, "'"), errno);
  return fd;
}

// try_lock(fd, path), until it is true.
template <class Try>
Fd wait_for(Fd fd, const std::string& path, std::chrono::milliseconds deadline, Try&& try_lock) {
  if (try_lock(fd, path)) return fd;
  // Short ones first: it is held for less than a millisecond by most.
  constexpr std::chrono::milliseconds kPause{1}, kMaxPause{8};
  const auto end = std::chrono::steady_clock::now() + deadline;
  for (auto pause = kPause; std::chrono::steady_clock::now() < end;
       pause = std::min(2 * pause, kMaxPause)) {
    std::this_thread::sleep_for(pause);
    if (try_lock(fd, path)) return fd;
  }
  throw out_of_time(path, fd.get(), deadline);
}

}  // namespace

// Reads lines of /proc/locks: "1: FLOCK  ADVISORY  WRITE 812 fe:00:1313 0 EOF".
std::string lock_holder(int fd) try {
  struct stat info;
  const auto text = netlink::read_file("/proc/locks");
  if (!text || ::fstat(fd, &info) != 0) return {};
  const std::string inode = cat(":", info.st_ino, " ");
  for (std::size_t at = 0; at < text->size();) {
    const auto end = std::min(text->find('\n', at), text->size());
    const std::string line = text->substr(at, end - at);
    at = end + 1;
    const auto flock = line.find(": FLOCK ");
    const auto write = line.find(" WRITE ");
    if (flock == std::string::npos || write == std::string::npos ||
        line.find(inode) == std::string::npos) {
      continue;
    }
    const auto pid = line.find_first_not_of(' ', write + 7);
    return line.substr(pid, line.find(' ', pid) - pid);
  }
  return {};
} catch (const netlink::Error&) {
  return {};  // the complaint is complete without it
}

Fd take_lock(const Dir& dir, std::chrono::milliseconds deadline, const std::string& name) {
  const Phase phase("lock");
  // Access and mode are the reference's; a lock file left by it is as good.
  Fd fd = open_in(dir, name, O_RDONLY, 0750);
  return wait_for(std::move(fd), cat(dir.path(), "/", name), deadline, try_lock);
}

Fd take_lock_of(const std::string& thing, const Dir& dir, std::chrono::milliseconds deadline,
                const std::string& name) {
  constexpr unsigned kDigits = 15;  // what an off_t has place for
  const Phase phase("lock");
  const auto byte = static_cast<off_t>(std::stoull(sha512_hex(thing, kDigits), nullptr, 16));
  Fd fd = open_in(dir, name, O_RDWR, 0600);
  return wait_for(
      std::move(fd), cat(dir.path(), "/", name), deadline,
      [&](const Fd& file, const std::string& path) { return try_byte(file, path, byte); });
}

}  // namespace cni

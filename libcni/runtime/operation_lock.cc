#include "libcni/runtime/operation_lock.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/common/hash.h"

namespace cni {

namespace {

using Clock = std::chrono::steady_clock;
using netlink::Fd;

// One byte of the file stands for each thing that can be locked: no file is left for every
// container there ever was. Two things that share a byte wait for one another without need.
enum class Kind : unsigned { kNetwork = 0, kGate = 1, kContainer = 2 };

off_t byte_of(Kind kind, const std::string& name) {
  const std::uint64_t hash = std::stoull(sha512_hex(name, 15), nullptr, 16);
  return static_cast<off_t>(hash << 2 | static_cast<unsigned>(kind));
}

struct ByteLock {
  short type;  // F_RDLCK (with others), F_WRLCK (alone) or F_UNLCK
  off_t byte;
  std::string what;  // for the complaint
};

Fd open_file(const Cache& cache) {
  const Dir dir = Dir::create(cache.dir());
  Fd fd(::openat(dir.fd(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) throw netlink::Error(cat("open '", dir.path(), "/lock'"), errno);
  return fd;
}

// Locks of the open file, not of the process: threads have them apart, and a plugin, for whom the
// file is closed, does not keep them.
bool try_lock(const Fd& file, const ByteLock& wanted) {
  struct flock lock {};
  lock.l_type = wanted.type;
  lock.l_whence = SEEK_SET;
  lock.l_start = wanted.byte;
  lock.l_len = 1;
  if (::fcntl(file.get(), F_OFD_SETLK, &lock) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  throw netlink::Error(cat("lock ", wanted.what), errno);
}

Fd open_to_look(const Cache& cache) {
  return Fd(
      ::open(cat(cache.dir(), "/lock").c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

// Whether a lock of the type would have to wait. Empty: unknown.
std::optional<bool> is_locked(const Fd& file, short type, off_t byte) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  if (!file || ::fcntl(file.get(), F_OFD_GETLK, &lock) != 0) return std::nullopt;
  return lock.l_type != F_UNLCK;
}

// Waits by asking again: a system call that waits could be ended by a signal alone, and a library
// should not take a signal from the program that it is in.
void lock(const Fd& file, const ByteLock& wanted, const OperationLock::Wait& wait) {
  constexpr std::chrono::milliseconds kMaxPause{20};
  const auto end = Clock::now() + wait.limit;
  for (std::chrono::milliseconds pause{1};; pause = std::min(2 * pause, kMaxPause)) {
    if (try_lock(file, wanted)) return;
    if (Clock::now() >= end) {
      const auto holders = lock_holders(file.get(), wanted.byte);
      throw Error(Code::kTryAgainLater,
                  cat("lock ", wanted.what, ": not free after ", wait.limit.count() / 1000,
                      " s, another operation on it is running",
                      holders.empty() ? "" : cat(": ", holders.front().str())));
    }
    pollfd stop{wait.stop_fd, POLLIN, 0};
    if (::poll(&stop, 1, static_cast<int>(pause.count())) > 0) {
      throw Error(Code::kTryAgainLater, cat("lock ", wanted.what, ": stopped while waiting"));
    }
  }
}

ByteLock network(short type, const std::string& name) {
  return {type, byte_of(Kind::kNetwork, name), cat("network '", name, "'")};
}

// A waiter for a network holds its gate, so that later ones wait behind it.
ByteLock gate(short type, const std::string& name) {
  return {type, byte_of(Kind::kGate, name), cat("network '", name, "'")};
}

ByteLock container(const std::string& id) {
  return {F_WRLCK, byte_of(Kind::kContainer, id), cat("container '", id, "'")};
}

void lock_network(const Fd& file, short type, const std::string& name,
                  const OperationLock::Wait& wait) {
  lock(file, gate(type, name), wait);
  lock(file, network(type, name), wait);
  lock(file, gate(F_UNLCK, name), wait);
}

}  // namespace

// Always the network first, then the container: nobody waits for one who waits for him.
OperationLock OperationLock::of_attachment(const Cache& cache, const AttachmentKey& key,
                                           const Wait& wait) {
  Fd file = open_file(cache);
  lock_network(file, F_RDLCK, key.network, wait);
  lock(file, container(key.container_id), wait);
  return OperationLock(std::move(file));
}

OperationLock OperationLock::of_network(const Cache& cache, const std::string& network,
                                        const Wait& wait) {
  Fd file = open_file(cache);
  lock_network(file, F_WRLCK, network, wait);
  return OperationLock(std::move(file));
}

OperationLock OperationLock::of_container(const Cache& cache, const AttachmentKey& key,
                                          const Wait& wait) {
  Fd file = open_file(cache);
  lock(file, container(key.container_id), wait);
  return OperationLock(std::move(file));
}

std::optional<bool> OperationLock::is_held(const Cache& cache, const std::string& container_id) {
  const Fd file = open_to_look(cache);
  if (!file && errno == ENOENT) return false;
  return is_locked(file, F_WRLCK, container(container_id).byte);
}

std::vector<FileUser> OperationLock::collectors(const Cache& cache,
                                                const std::string& network_name) {
  const Fd file = open_to_look(cache);
  const off_t byte = network(F_RDLCK, network_name).byte;
  if (is_locked(file, F_RDLCK, byte) != true) return {};
  return lock_holders(file.get(), byte);
}

}  // namespace cni

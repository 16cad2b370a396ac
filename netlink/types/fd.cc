#include "netlink/types/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "netlink/types/error.h"

namespace netlink {

namespace {

// No config, result or answer is near to it; what never ends must not fill the memory.
constexpr std::size_t kMaxRead = 64U << 20;

// Empty where it does not exist.
Fd open_file(const std::string& path, int flags) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | flags));
  if (!fd && errno != ENOENT) throw Error(cat("open '", path, "'"), errno);
  return fd;
}

struct stat status_of(const Fd& fd, const std::string& path) {
  struct stat out;
  if (::fstat(fd.get(), &out) != 0) throw Error(cat("look at '", path, "'"), errno);
  return out;
}

// What a large file has now, as an executable of megabytes, in few calls; of others nothing.
std::string begin_of(const Fd& fd, const struct stat& status, const std::string& path) {
  constexpr off_t kLarge = 65536;
  if (status.st_size < kLarge) return {};
  std::string out(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t filled = 0;
  while (filled < out.size()) {
    const ssize_t n = ::read(fd.get(), &out[filled], out.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(cat("read '", path, "'"), errno);
    if (n == 0) break;
    filled += static_cast<std::size_t>(n);
  }
  out.resize(filled);
  return out;
}

// Of a file that is too large nothing is read: on a busy node 64 MiB took three seconds.
std::string read_whole(const Fd& fd, const struct stat& status, const std::string& path) {
  if (S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) > kMaxRead) {
    throw Error(cat("read '", path, "'"), EFBIG);
  }
  const std::string begin = begin_of(fd, status, path);
  std::string rest = read_all(fd.get(), path);
  return begin.empty() ? rest : begin + rest;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() noexcept {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

void Fd::reset() noexcept {
  // close(2) on Linux frees the descriptor even when it reports EINTR; there is nothing to retry.
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

std::string read_all(int fd, std::string_view name) {
  std::string out;
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(cat("read '", name, "'"), errno);
    if (n == 0) return out;
    if (out.size() > kMaxRead) throw Error(cat("read '", name, "'"), EFBIG);
    out.append(buffer, static_cast<std::size_t>(n));
  }
}

void write_all(int fd, std::string_view data, std::string_view name) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(cat("write '", name, "'"), errno);
    if (n == 0) throw Error(cat("write '", name, "'"), ENOSPC);
    data.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::optional<std::string> read_file(const std::string& path) {
  const Fd fd = open_file(path, 0);
  return fd ? std::optional(read_whole(fd, status_of(fd, path), path)) : std::nullopt;
}

std::optional<std::string> read_regular_file(const std::string& path) {
  const Fd fd = open_file(path, O_NONBLOCK);
  if (!fd) return std::nullopt;
  const struct stat status = status_of(fd, path);
  if (!S_ISREG(status.st_mode)) {
    throw Error(cat("read '", path, "', which is not a regular file"), EINVAL);
  }
  return read_whole(fd, status, path);
}

}  // namespace netlink

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace netlink {

/// An owned file descriptor; closed with its owner. -1 is "none".
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept;
  void reset() noexcept;

 private:
  int fd_ = -1;
};

/// Reads to the end of the file. \throws Error (what: "read 'name'"), EFBIG for more than 64 MiB;
/// EINTR is retried.
std::string read_all(int fd, std::string_view name);

/// Writes all of data. \throws Error (what: "write 'name'"); EINTR and short writes are retried.
void write_all(int fd, std::string_view data, std::string_view name);

/// The content of a whole file, or nothing where it does not exist.
/// \throws Error for any other failure.
std::optional<std::string> read_file(const std::string& path);
/// The same where whatever is at path must not hold up the caller: a FIFO is not waited for.
/// \throws Error(EINVAL) for what is no regular file.
std::optional<std::string> read_regular_file(const std::string& path);

}  // namespace netlink

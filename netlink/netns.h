#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "netlink/types/fd.h"

namespace netlink {

/// A network namespace: an open handle, cheap to copy, closed with its last copy.
class NetNs {
 public:
  /// The namespace this thread is in. It is looked up once a thread: one that changes it by other
  /// means than Entered does so before.
  static NetNs current();
  /// \throws Error: ENOENT where nothing is there, EINVAL where it is not a network namespace (as a
  /// mount point that lost its mount).
  static NetNs open(const std::string& path);
  /// Empty: path is empty, absent, or no longer a network namespace. For DEL.
  /// \throws Error if that is unknown, for example without a free file descriptor or
  /// CAP_SYS_PTRACE.
  static std::optional<NetNs> find(const std::string& path);
  /// Whether a path that find() finds nothing at says no more than that: it is a plain file, as
  /// where the mount on it is not propagated to this process's mount namespace, or the folder that
  /// it should be in does not exist here or may_be_own().
  static bool may_hide(const std::string& path) noexcept;
  /// A new one, with nothing but a loopback link that is down; gone with its last handle and
  /// socket.
  static NetNs create();
  /// What tells it from others that exist: the same by every path, and another namespace may have
  /// it after the end of this one, which RouteSocket::cookie() tells from it.
  struct Id {
    std::uint64_t device = 0, inode = 0;
    auto operator<=>(const Id&) const = default;
    /// "DEVICE:INODE".
    std::string str() const;
  };
  Id id() const;
  /// Of what is at the path, by one system call; empty: nothing is.
  static std::optional<Id> id_at(const std::string& path) noexcept;
  /// True where path can be opened and is the namespace this thread is in.
  static bool is_current(const std::string& path);
  /// The magic number (statfs(2)) of the file system of the path, where it is one that has no
  /// namespaces: neither nsfs nor proc. \throws Error with the errno of statfs(2).
  static std::optional<unsigned long> foreign_file_system(const std::string& path);

  /// Guard: enters; its destructor goes back or aborts the process, since a process lost in another
  /// namespace must not go on.
  class Entered;

  int fd() const { return fd_->get(); }

 private:
  explicit NetNs(Fd fd) : fd_(std::make_shared<const Fd>(std::move(fd))) {}
  std::shared_ptr<const Fd> fd_;
};

class NetNs::Entered {
 public:
  explicit Entered(const NetNs& ns);
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  ~Entered();

 private:
  NetNs back_;
};

}  // namespace netlink

#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "netlink/types/fd.h"

namespace cni {

/// A socket of unix(7) that a daemon listens on, non-blocking. Its file, which it made with mode
/// 0600, is removed with it, unless another has the path by then.
class Listener {
 public:
  /// Listens under another name first and then takes the path over, whose folder is made: a client
  /// finds the earlier listener or this one. \throws netlink::Error; Error for a path that is too
  /// long.
  explicit Listener(const std::string& path);
  /// The one that systemd made and passed (sd_listen_fds(3)), which goes on to listen when this
  /// process ends. Empty: none was passed. \throws Error for what is no listening socket.
  static std::optional<Listener> passed();
  ~Listener();
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&& other) noexcept;

  /// Whether nobody reaches it: its file was removed, as by `rm -r /run/cni`, and no other process
  /// listens at the path.
  bool is_lost() const;
  int fd() const { return fd_.get(); }
  /// Empty: an abstract socket, or it cannot be told.
  const std::string& path() const { return path_; }

  /// The next connection. None: nobody waits; another user's than root's and this process's, which
  /// is closed (errno is EACCES); or a resource is missing (is_short_of()).
  netlink::Fd accept() const;
  /// Whether accept() would fail again at once after this errno value: descriptors or memory are
  /// missing.
  static bool is_short_of(int error);

 private:
  Listener(std::string path, netlink::Fd fd, bool is_own);
  void remove() noexcept;

  std::string path_;
  netlink::Fd fd_;
  ino_t inode_ = 0;      ///< of the file
  bool is_own_ = false;  ///< the file
};

/// Whether a process listens at path; one whose backlog is full does. True where that cannot be
/// told.
bool has_listener(const std::string& path);

}  // namespace cni

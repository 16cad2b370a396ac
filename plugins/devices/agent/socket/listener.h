#pragma once

#include <sys/types.h>

#include <string>

#include "netlink/types/fd.h"

namespace devices {

/// A listening socket of mode 0600. Its file is removed with it, unless another has the path by
/// then.
class SocketListener {
 public:
  /// Listens under another name first and then takes the path over: a client finds the earlier
  /// instance or this one. \throws netlink::Error, cni::Error for a path that is too long.
  explicit SocketListener(const std::string& path);
  ~SocketListener();
  SocketListener(const SocketListener&) = delete;
  SocketListener& operator=(const SocketListener&) = delete;

  /// Whether nobody reaches it: its file was removed, as by `rm -r /run/cni`, and no other instance
  /// has the path.
  bool is_lost() const;
  int fd() const { return fd_.get(); }
  /// The next connection, if its process is root's or of this user; none: nobody waits, or another
  /// user's, which is closed. errno is EMFILE or the like where descriptors are missing.
  netlink::Fd accept() const;

 private:
  std::string path_;
  netlink::Fd fd_;
  ino_t inode_ = 0;
};

}  // namespace devices

#pragma once

#include <sys/types.h>

#include <functional>

#include "netlink/types/fd.h"

namespace tool::probe {

/// A child process that waits for the end of this one, and removes what it has left if it was
/// killed. Where there is no process to be had, nothing waits.
class Cleaner {
 public:
  /// \param clean is called in the child, with all that this process has at this moment; its
  /// sockets, which the kernel of another mind reads from, are to be opened anew.
  explicit Cleaner(const std::function<void()>& clean);
  /// The child ends without having called it.
  ~Cleaner();
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;

 private:
  netlink::Fd alive_;  ///< its other end is the child's: closed by the kernel with this process
  pid_t child_ = -1;
};

}  // namespace tool::probe

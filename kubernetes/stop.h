#pragma once

#include <atomic>
#include <chrono>

#include "netlink/types/fd.h"

namespace kubernetes {

/// Ends waits of other threads, once for all (eventfd(2)).
class Stop {
 public:
  Stop();  ///< \throws netlink::Error

  void set() noexcept;
  bool is_set() const noexcept { return is_set_; }
  /// Readable once it is set.
  int fd() const noexcept { return event_.get(); }
  /// False: it was set meanwhile.
  bool wait(std::chrono::milliseconds pause) const noexcept;

 private:
  netlink::Fd event_;
  std::atomic<bool> is_set_ = false;
};

}  // namespace kubernetes

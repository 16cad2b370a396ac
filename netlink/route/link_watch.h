#pragma once

#include "netlink/channel.h"

namespace netlink {

/// Hears that links or addresses of the thread's network namespace change, not what has changed.
/// Everything throws netlink::Error.
class LinkWatch {
 public:
  LinkWatch();

  /// Readable after a change.
  int fd() const { return channel_.fd(); }
  /// Takes what has been announced, or was lost because it was too much. Does not wait.
  void drain() const noexcept;

 private:
  Channel channel_;
};

}  // namespace netlink

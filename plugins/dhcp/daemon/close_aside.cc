#include "plugins/dhcp/daemon/close_aside.h"

#include <exception>
#include <thread>
#include <utility>

namespace dhcp {

#ifdef _GLIBCXX_HAS_GTHREADS

void close_aside(netlink::Fd fd) noexcept {
  if (!fd) return;
  try {
    // It inherits that all signals of the event loop are blocked.
    std::thread([last = std::move(fd)]() mutable { last.reset(); }).detach();
  } catch (const std::exception&) {
    // No thread was to be had, and the descriptor is closed.
  }
}

#else  // the C++ library of the musl build has no threads

void close_aside(netlink::Fd fd) noexcept { fd.reset(); }

#endif

}  // namespace dhcp

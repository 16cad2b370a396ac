#include "plugins/dhcp/daemon/close_aside.h"

#include <exception>
#include <thread>
#include <utility>

namespace dhcp {

void close_aside(netlink::Fd fd) noexcept {
  if (!fd) return;
  try {
    // It inherits that all signals of the event loop are blocked.
    std::thread([last = std::move(fd)]() mutable { last.reset(); }).detach();
  } catch (const std::exception&) {
    // No thread was to be had, and the descriptor is closed.
  }
}

}  // namespace dhcp

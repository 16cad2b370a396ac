#include "kubernetes/stop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "netlink/types/error.h"

namespace kubernetes {

Stop::Stop() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw netlink::Error("create eventfd", errno);
}

void Stop::set() noexcept {
  is_set_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
}

bool Stop::wait(std::chrono::milliseconds pause) const noexcept {
  const auto end = std::chrono::steady_clock::now() + pause;
  while (!is_set_) {
    const auto rest =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (rest.count() <= 0) return true;
    pollfd one{.fd = event_.get(), .events = POLLIN, .revents = 0};
    const auto most = std::chrono::milliseconds(3'600'000);
    ::poll(&one, 1, static_cast<int>(std::min(rest, most).count()));
  }
  return false;
}

}  // namespace kubernetes

#include "cnitool/probe/pacer.h"

#include <poll.h>

#include <algorithm>

namespace tool::probe {

using std::chrono::steady_clock;

Pacer::Pacer(const Pace& pace, int stop)
    : gap_(std::chrono::nanoseconds(std::chrono::seconds(1)) / std::max(1U, pace.per_second)),
      next_(steady_clock::now()),
      end_(pace.end),
      stop_(stop) {}

void Pacer::count() {
  constexpr auto kMostBehind =
      std::chrono::milliseconds(10);  // what sleeping is exact to, at least
  next_ = std::max(next_, steady_clock::now() - kMostBehind) + gap_;
}

bool Pacer::wait() {
  while (!is_over_) {
    const auto now = steady_clock::now();
    pollfd stop{stop_, POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(next_ - now, {}));
    is_over_ = now >= end_ || ::poll(&stop, 1, static_cast<int>(left.count())) > 0;
    if (is_over_ || steady_clock::now() < next_) continue;
    count();
    return true;
  }
  return false;
}

}  // namespace tool::probe

#pragma once

#include <algorithm>
#include <chrono>
#include <random>

namespace block_agent {

/// Pauses after errors: doubled from 0.5 s to 30 s, each up to a fifth longer, so that nodes that
/// lost the engine together do not come back together.
class Pauses {
 public:
  using Time = std::chrono::milliseconds;

  Time next() {
    pause_ = std::clamp(2 * pause_, kFirst, kLast);
    std::uniform_int_distribution<Time::rep> more(0, pause_.count() / 5);
    return pause_ + Time(more(random_));
  }
  void reset() { pause_ = Time(0); }

 private:
  static constexpr Time kFirst{500}, kLast{30'000};
  Time pause_{0};
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace block_agent

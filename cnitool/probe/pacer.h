#pragma once

#include <chrono>

#include "cnitool/probe/sender.h"

namespace tool::probe {

/// Keeps packets to a pace.
class Pacer {
 public:
  /// stop: as of Watched.
  Pacer(const Pace& pace, int stop);
  /// When the next packet may be sent, for those who have their own way of waiting.
  std::chrono::steady_clock::time_point next() const { return next_; }
  /// That packet is sent now.
  void count();
  /// Returns where the next packet may be sent, and counts it. False: the user wants an end, or the
  /// time is over.
  bool wait();
  /// Whether wait() has returned false.
  bool is_over() const { return is_over_; }

 private:
  std::chrono::nanoseconds gap_;
  std::chrono::steady_clock::time_point next_, end_;
  int stop_;
  bool is_over_ = false;
};

}  // namespace tool::probe

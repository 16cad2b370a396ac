#pragma once

#include <chrono>

#include "cnitool/probe/sender.h"

namespace tool::probe {

/// Keeps packets that are sent one by one to the pace of the others.
class Pacer {
 public:
  /// stop: as of Watched.
  Pacer(const Pace& pace, int stop);
  /// Returns where the next packet may be sent. False: the user wants an end, or the time is over.
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

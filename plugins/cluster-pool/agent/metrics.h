#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libcni/daemon/event_loop.h"

namespace block_agent {

/// What happened since the start.
struct Totals {
  std::uint64_t claims = 0, conflicts = 0, returns = 0, errors = 0;
  bool is_engine_there = false;  ///< its objects were listed, and no call failed since
  cni::BootTime contact{0};      ///< when it said something last; 0: never
  std::string error = {};        ///< why it is not there
};

/// Of a network, for metrics.
struct Count {
  std::string network;
  std::size_t held = 0, returning = 0, lost = 0;
  std::uint64_t addresses = 0, leases = 0;  ///< of held blocks
};

/// In the text format of Prometheus.
std::string metrics_text(const std::vector<Count>& counts, const Totals& totals);

}  // namespace block_agent

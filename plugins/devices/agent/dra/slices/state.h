#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace devices::dra {

/// The ResourceSlices of this node, for `patchbay-agent status` and metrics.
struct SliceState {
  std::int64_t generation = 0;  ///< 0: nothing was published yet
  std::int64_t slices = 0, devices = 0;
  std::int64_t errors = 0;  ///< since the start
  std::string error = {};   ///< why the slices are not as they should be; empty: they are
  bool operator==(const SliceState&) const = default;
};

}  // namespace devices::dra

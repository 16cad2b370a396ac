#include "libcni/common/phase.h"

#include <algorithm>
#include <new>

namespace cni {

void CallRecord::add(std::string_view phase, Nanoseconds took) noexcept try {
  const auto found =
      std::ranges::find_if(phases_, [phase](const auto& one) { return one.first == phase; });
  if (found != phases_.end()) {
    found->second += took;
  } else {
    phases_.emplace_back(phase, took);
  }
} catch (const std::bad_alloc&) {
  // The log has one phase less.
}

void CallRecord::note(std::string_view text) noexcept try {
  notes_.emplace_back(text);
} catch (const std::bad_alloc&) {
  // It is on stderr.
}

}  // namespace cni

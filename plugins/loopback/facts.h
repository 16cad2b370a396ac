#pragma once

#include "libcni/config/facts.h"

namespace loopback {

inline constexpr cni::Facts kFacts{cni::Fact::kLoopback};

}  // namespace loopback

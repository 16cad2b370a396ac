#pragma once

#include "libcni/config/facts.h"

namespace tap {

inline constexpr cni::Facts kFacts{cni::Fact::kInterface};

}  // namespace tap

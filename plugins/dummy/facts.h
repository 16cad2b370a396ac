#pragma once

#include "libcni/config/facts.h"

namespace dummy {

inline constexpr cni::Facts kFacts{{cni::Fact::kInterface}, "dummy"};

}  // namespace dummy

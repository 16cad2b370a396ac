#pragma once

#include "libcni/config/facts.h"

namespace bridge {

inline constexpr cni::Facts kFacts{{cni::Fact::kInterface, cni::Fact::kBridge, cni::Fact::kKeeps},
                                   "bridge"};

}  // namespace bridge

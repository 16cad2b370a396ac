#pragma once

#include "libcni/config/facts.h"

namespace vrf {

inline constexpr cni::Facts kFacts{{cni::Fact::kChained, cni::Fact::kVrf, cni::Fact::kKeeps},
                                   "vrf"};

}  // namespace vrf

#pragma once

#include "libcni/config/facts.h"

namespace bandwidth {

inline constexpr cni::Facts kFacts{{cni::Fact::kChained, cni::Fact::kRates, cni::Fact::kKeeps},
                                   "ifb"};

}  // namespace bandwidth

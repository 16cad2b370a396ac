#pragma once

#include "libcni/config/facts.h"

namespace cluster_pool {

inline constexpr cni::Facts kFacts{cni::Fact::kIpam, cni::Fact::kRanges};

}  // namespace cluster_pool

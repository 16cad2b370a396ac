#pragma once

#include "libcni/config/facts.h"

namespace host_local {

inline constexpr cni::Facts kFacts{cni::Fact::kIpam, cni::Fact::kRanges};

}  // namespace host_local

#pragma once

#include "libcni/config/facts.h"

namespace ipvlan {

inline constexpr cni::Facts kFacts{{cni::Fact::kInterface, cni::Fact::kMaster}, "ipvlan"};

}  // namespace ipvlan

#pragma once

#include "libcni/config/facts.h"

namespace macvlan {

inline constexpr cni::Facts kFacts{{cni::Fact::kInterface, cni::Fact::kMaster}, "macvlan"};

}  // namespace macvlan

#pragma once

#include "libcni/config/facts.h"

namespace vlan {

inline constexpr cni::Facts kFacts{{cni::Fact::kInterface, cni::Fact::kMaster}, "vlan"};

}  // namespace vlan

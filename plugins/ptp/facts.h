#pragma once

#include "libcni/config/facts.h"

namespace ptp {

inline constexpr cni::Facts kFacts{{cni::Fact::kInterface, cni::Fact::kRouted}, "veth"};

}  // namespace ptp

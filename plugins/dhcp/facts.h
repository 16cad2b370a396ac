#pragma once

#include "libcni/config/facts.h"

namespace dhcp {

inline constexpr cni::Facts kFacts{cni::Fact::kIpam, cni::Fact::kServer};

}  // namespace dhcp

#pragma once

#include "libcni/config/facts.h"

namespace firewall {

inline constexpr cni::Facts kFacts{cni::Fact::kChained, cni::Fact::kPolicy, cni::Fact::kKeeps};

}  // namespace firewall

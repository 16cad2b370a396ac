#pragma once

#include "libcni/config/facts.h"

namespace portmap {

inline constexpr cni::Facts kFacts{cni::Fact::kChained, cni::Fact::kPorts, cni::Fact::kKeeps};

}  // namespace portmap

#pragma once

#include "libcni/config/facts.h"

namespace flannel {

inline constexpr cni::Facts kFacts{cni::Fact::kInterface, cni::Fact::kDelegates};

}  // namespace flannel

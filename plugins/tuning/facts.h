#pragma once

#include "libcni/config/facts.h"

namespace tuning {

inline constexpr cni::Facts kFacts{cni::Fact::kChained, cni::Fact::kSettings, cni::Fact::kKeeps};

}  // namespace tuning

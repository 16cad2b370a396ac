#pragma once

#include "libcni/config/facts.h"

namespace sbr {

inline constexpr cni::Facts kFacts{cni::Fact::kChained, cni::Fact::kSourceRoutes,
                                   cni::Fact::kKeeps};

}  // namespace sbr

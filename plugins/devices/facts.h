#pragma once

#include "libcni/config/facts.h"

namespace devices {

inline constexpr cni::Facts kFacts{cni::Fact::kChained, cni::Fact::kDevices, cni::Fact::kKeeps};

}  // namespace devices

#pragma once

#include "libcni/config/facts.h"

namespace host_device {

inline constexpr cni::Facts kFacts{cni::Fact::kInterface, cni::Fact::kKeeps};

}  // namespace host_device

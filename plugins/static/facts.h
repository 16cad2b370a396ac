#pragma once

#include "libcni/config/facts.h"

namespace static_ipam {

inline constexpr cni::Facts kFacts{cni::Fact::kIpam, cni::Fact::kAddresses};

}  // namespace static_ipam

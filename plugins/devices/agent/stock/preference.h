#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugins/devices/agent/core.h"

namespace devices {

/// \param numa the NUMA node of each device that is offered. See Core::preferred().
std::vector<std::string> preferred_of(const Core::Preference& asked,
                                      const std::map<std::string, std::optional<int>>& numa);

}  // namespace devices

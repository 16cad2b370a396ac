#pragma once

#include <map>
#include <string>

#include "plugins/devices/agent/inventory/inventory.h"

namespace devices {

/// Why links of the node are not offered, by their index: the node, or a link of it, uses them. A
/// link that is not in it may be offered.
std::map<int, std::string> exclusions(const NodeLinks& node);

}  // namespace devices

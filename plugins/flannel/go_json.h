#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace flannel {

/// The text that Go's encoding/json makes of a value, in the order of its keys: one line, numbers
/// as those of float64, '<', '>' and '&' escaped. So the state files of both plugins are the same.
std::string go_json(const nlohmann::ordered_json& value);

}  // namespace flannel

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace tool {

/// The document as an object, for the configs of container runtimes (toml.io/en/v1.0.0). Tables,
/// lists, strings, integers and booleans have their values; floats and dates are strings.
/// \throws std::invalid_argument with the line of what is no TOML.
nlohmann::json parse_toml(std::string_view text);

}  // namespace tool

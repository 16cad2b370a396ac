#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace cni {

/// The JSON document that text is. what names it in complaints: "the config on stdin".
/// \throws Error(kDecodingFailure) with line and column, or where it nests deeper than any config
/// does (1000 levels).
nlohmann::json parse_json(std::string_view text, std::string_view what);

}  // namespace cni

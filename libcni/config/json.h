#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace cni {

/// The JSON document that text is. what names it in complaints: "the config on stdin".
/// \throws Error(kDecodingFailure) with line and column, or where it nests deeper than any config
/// does (1000 levels).
nlohmann::json parse_json(std::string_view text, std::string_view what);

/// The same for a text that need not be JSON: is_discarded() where it is none or nests too deep.
nlohmann::json try_parse_json(std::string_view text);
/// The same with the keys in their order.
nlohmann::ordered_json try_parse_ordered_json(std::string_view text);

}  // namespace cni

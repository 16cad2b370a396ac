#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cni {

/// The JSON document that text is. what names it in complaints: "the config on stdin".
/// The last of keys that differ by case alone stays, as Go's encoding/json takes it; names of
/// sysctls may differ so.
/// \throws Error(kDecodingFailure) with line and column, where it begins with a byte order mark, or
/// nests deeper than any config does (1000 levels).
nlohmann::json parse_json(std::string_view text, std::string_view what);

/// Whether keys of one object are one key in two ways to write it: see parse_json().
bool is_same_key(const std::string& a, const std::string& b);

/// The same for a text that need not be JSON: is_discarded() where it is none or nests too deep.
nlohmann::json try_parse_json(std::string_view text);
/// The same with the keys in their order.
nlohmann::ordered_json try_parse_ordered_json(std::string_view text);

}  // namespace cni

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tool {

/// The value of a key, in any case of letters, as plugins read it; null where it is absent.
const nlohmann::json* member(const nlohmann::json& object, const char* key);
/// Its text; `otherwise` where it is absent, empty or something else.
std::string text_at(const nlohmann::json& object, const char* key,
                    const std::string& otherwise = {});
/// The texts of its list; none where it is absent or something else.
std::vector<std::string> strings_at(const nlohmann::json& object, const char* key);
/// Whether it is there and true.
bool is_true(const nlohmann::json& object, const char* key);
/// The number; 0 where it is absent, negative or something else.
double number_at(const nlohmann::json& object, const char* key);

}  // namespace tool

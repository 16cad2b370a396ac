#include "cnitool/json_at.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/config/conf.h"

namespace tool {

using nlohmann::json;

const json* member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const cni::Reader place = cni::Reader(object)[key];
  return place.present() ? &place.json() : nullptr;
}

std::string text_at(const json& object, const char* key, const std::string& otherwise) {
  const json* const value = member(object, key);
  const std::string text = value != nullptr && value->is_string() ? value->get<std::string>() : "";
  return text.empty() ? otherwise : text;
}

std::vector<std::string> strings_at(const json& object, const char* key) {
  std::vector<std::string> out;
  const json* const list = member(object, key);
  if (list == nullptr || !list->is_array()) return out;
  for (const json& one : *list) {
    if (one.is_string()) out.push_back(one.get<std::string>());
  }
  return out;
}

bool is_true(const json& object, const char* key) {
  const json* const value = member(object, key);
  return value != nullptr && *value == true;
}

double number_at(const json& object, const char* key) {
  const json* const value = member(object, key);
  return value != nullptr && value->is_number() ? std::max(value->get<double>(), 0.0) : 0;
}

}  // namespace tool

#include "cnitool/toml.h"

#include <toml++/toml.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "libcni/common/error.h"

namespace tool {

namespace {

using nlohmann::json;

json json_of(const toml::node& node) {
  if (const auto* const table = node.as_table()) {
    json out = json::object();
    for (const auto& [key, value] : *table) out[std::string(key.str())] = json_of(value);
    return out;
  }
  if (const auto* const list = node.as_array()) {
    json out = json::array();
    for (const toml::node& one : *list) out.push_back(json_of(one));
    return out;
  }
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<std::int64_t>()) return *number;
  if (const auto flag = node.value_exact<bool>()) return *flag;
  std::ostringstream text;  // numbers with fractions, dates
  node.visit([&text](const auto& one) { text << one; });
  return text.str();
}

}  // namespace

json parse_toml(std::string_view text) try {
  return json_of(toml::parse(text));
} catch (const toml::parse_error& e) {
  throw std::invalid_argument(cni::cat("line ", e.source().begin.line, ": ", e.description()));
}

}  // namespace tool

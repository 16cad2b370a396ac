#include "libcni/schema_keywords.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <vector>

#include "libcni/conf.h"
#include "netlink/types/mac.h"

namespace cni {

namespace {

using nlohmann::json;

const json kAnything = true;

bool is_type(const json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();  // 1.0 is none to a plugin
  if (type == "number") return value.is_number();
  return type == value.type_name();  // null, boolean, string, array, object
}

bool is_format(const std::string& text, const std::string& format) {
  const auto ip = Ip::parse(text);
  const bool colon = text.find(':') != std::string::npos;
  if (format == "ipv4") return ip && !colon;
  if (format == "ipv6") return ip && colon;
  if (format == "cidr") return Cidr::parse(text).has_value();
  if (format != "mac") return true;
  const auto mac = netlink::Mac::parse(text);
  return mac && !mac->is_zero() && !mac->is_multicast();
}

// A pattern ready to be searched for; nothing if it is written in another dialect. To make one
// takes a hundred times as long as to use it, and schemas have the same few for every value.
const std::optional<std::regex>& compiled(const std::string& pattern) {
  thread_local std::map<std::string, std::optional<std::regex>> all;
  const auto [at, is_new] = all.try_emplace(pattern);
  if (is_new) {
    try {
      at->second.emplace(pattern);
    } catch (const std::regex_error&) {
      at->second.reset();
    }
  }
  return at->second;
}

bool is_match(const std::string& text, const std::string& pattern) {
  constexpr std::size_t kMost = 1000;  // std::regex calls itself for every character
  if (text.size() > kMost) return true;
  const auto& regex = compiled(pattern);
  return !regex || std::regex_search(text, *regex);
}

bool is_within(const json& schema, const json& number, const char* least, const char* most) {
  const json* const from = keyword(schema, least);
  const json* const to = keyword(schema, most);
  return (from == nullptr || !from->is_number() || number >= *from) &&
         (to == nullptr || !to->is_number() || number <= *to);
}

bool allows_text(const json& schema, const std::string& text) {
  const auto says = [&schema, &text](const char* name,
                                     bool (*holds)(const std::string&, const std::string&)) {
    const json* const wanted = keyword(schema, name);
    return wanted == nullptr || !wanted->is_string() || holds(text, wanted->get<std::string>());
  };
  return is_within(schema, text.size(), "minLength", "maxLength") && says("pattern", is_match) &&
         says("format", is_format);
}

// "a", "a or b", "a, b or c".
std::string one_of(const std::vector<std::string>& parts) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    out += cat(i == 0 ? "" : i + 1 < parts.size() ? ", " : " or ", parts[i]);
  }
  return out;
}

std::string number_words(const json& schema, const std::string& noun) {
  const json* const least = keyword(schema, "minimum");
  const json* const most = keyword(schema, "maximum");
  if (least == nullptr && most == nullptr) return noun;
  if (most == nullptr) return cat(noun, " of at least ", least->dump());
  if (least == nullptr) return cat(noun, " of at most ", most->dump());
  return cat(noun, " from ", least->dump(), " to ", most->dump());
}

std::string type_words(const json& schema, const std::string& type) {
  if (type == "boolean") return "true or false";
  if (type == "integer") return number_words(schema, "a whole number");
  if (type == "number") return number_words(schema, "a number");
  if (type == "array") return "a list";
  return cat(type == "object" ? "an " : "a ", type);
}

// Absence, as null or "", is nothing to be expected.
void keep(std::vector<std::string>& parts, const std::string& part) {
  if (!part.empty() && part != "null" && part != "\"\"" && part != "a null" &&
      std::find(parts.begin(), parts.end(), part) == parts.end()) {
    parts.push_back(part);
  }
}

}  // namespace

const json* keyword(const json& schema, const char* name) {
  if (!schema.is_object()) return nullptr;
  const auto it = schema.find(name);
  return it == schema.end() ? nullptr : &*it;
}

const json& resolved(const json& root, const json& schema) {
  constexpr int kMost = 100;
  const json* at = &schema;
  for (int i = 0; i < kMost; ++i) {
    const json* const ref = keyword(*at, "$ref");
    if (ref == nullptr) return *at;
    const std::string text = ref->is_string() ? ref->get<std::string>() : "";
    if (!text.starts_with('#')) return kAnything;
    try {
      at = &root.at(json::json_pointer(text.substr(1)));
    } catch (const json::exception&) {
      return kAnything;
    }
  }
  return kAnything;
}

bool allows_type(const json& schema, const json& value) {
  const json* const type = keyword(schema, "type");
  if (type == nullptr) return true;
  if (type->is_string()) return is_type(value, type->get<std::string>());
  return !type->is_array() || std::any_of(type->begin(), type->end(), [&value](const json& one) {
    return one.is_string() && is_type(value, one.get<std::string>());
  });
}

bool allows(const json& schema, const json& value) {
  if (!allows_type(schema, value)) return false;
  const json* const words = keyword(schema, "enum");
  if (words != nullptr && std::find(words->begin(), words->end(), value) == words->end()) {
    return false;
  }
  if (const json* const only = keyword(schema, "const"); only && *only != value) return false;
  if (value.is_number()) return is_within(schema, value, "minimum", "maximum");
  if (value.is_array()) return is_within(schema, value.size(), "minItems", "maxItems");
  return !value.is_string() || allows_text(schema, value.get<std::string>());
}

std::string expectation(const json& root, const json& schema) {
  const json& here = resolved(root, schema);
  const json* const message = keyword(here, "errorMessage");
  if (message != nullptr && message->is_string()) return message->get<std::string>();
  if (const json* const only = keyword(here, "const")) return only->dump();
  std::vector<std::string> parts;
  if (const json* const words = keyword(here, "enum")) {
    for (const json& word : *words) keep(parts, word.dump());
  } else if (const json* const branches = keyword(here, "anyOf")) {
    for (const json& branch : *branches) keep(parts, expectation(root, branch));
  } else if (const json* const type = keyword(here, "type")) {
    for (const json& one : type->is_array() ? *type : json::array({*type})) {
      if (one.is_string()) keep(parts, type_words(here, one.get<std::string>()));
    }
  } else if (here.is_object()) {
    return number_words(here, "a number");
  }
  return one_of(parts);
}

}  // namespace cni

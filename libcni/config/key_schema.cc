#include "libcni/config/key_schema.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "libcni/config/common_keys.h"

namespace cni {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kOctet = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
constexpr std::string_view kSix = "[0-9A-Fa-f.]*:[0-9A-Fa-f.:]*";  // "ipv6" says it exactly

Json ip() {
  const std::string four = cat("^(", kOctet, "\\.){3}", kOctet, "$");
  const Json alternatives = {{{"format", "ipv4"}, {"pattern", four}},
                             {{"format", "ipv6"}, {"pattern", cat("^", kSix, "$")}}};
  return {{"type", "string"}, {"anyOf", alternatives}, {"errorMessage", "an IP address"}};
}

Json cidr() {
  const std::string four = cat("(", kOctet, "\\.){3}", kOctet, "/(3[0-2]|[12]?[0-9])");
  const std::string six = cat(kSix, "/(12[0-8]|1[01][0-9]|[1-9]?[0-9])");
  return {{"type", "string"},
          {"format", "cidr"},
          {"pattern", cat("^(", four, "|", six, ")$")},
          {"errorMessage", kCidrForm}};
}

Json mac() {
  constexpr std::string_view kFirst = "[0-9A-Fa-f][02468ACEace]";  // no group's
  return {{"type", "string"},
          {"format", "mac"},
          {"pattern", cat("^(", kFirst, "([:-][0-9A-Fa-f]{2}){5}|", kFirst,
                          "[0-9A-Fa-f]{2}(\\.[0-9A-Fa-f]{4}){2})$")},
          {"errorMessage", kMacForm}};
}

/// Writes the schema of keys, and collects what they refer to.
class Writer {
 public:
  Json object(const Key& of) {
    Json out = {{"type", "object"}};
    Json required = Json::array();
    for (const Key& key : of.keys) {
      out["properties"][key.name] = property(key);
      if (key.required) required.push_back(key.name);
    }
    if (!required.empty()) out["required"] = std::move(required);
    if (!of.open) out["additionalProperties"] = false;
    if (of.open && of.flags) out["additionalProperties"] = {{"type", "boolean"}};
    return out;
  }

  Json property(const Key& key);
  Json take_definitions() { return std::move(definitions_); }

 private:
  Json element(const Key& key);
  Json defined(const char* name, Json (*definition)()) {
    definitions_[name] = definition();
    return {{"$ref", cat("#/$defs/", name)}};
  }

  Json definitions_ = Json::object();
};

Json range_of(const Key& key) {
  Json out = {{"minimum", key.minimum}};
  if (key.maximum != std::numeric_limits<std::int64_t>::max()) out["maximum"] = key.maximum;
  return out;
}

Json whole(const Key& key) {
  Json out = {{"type", "integer"}};
  if (key.or_zero) {
    out["anyOf"] = {{{"const", 0}}, range_of(key)};
  } else {
    out.update(range_of(key));
  }
  return out;
}

Json text(const Key& key) {
  Json out = {{"type", "string"}};
  if (key.pattern != nullptr) out["pattern"] = key.pattern;
  return out;
}

Json Writer::element(const Key& key) {
  switch (key.type) {
    case Type::kBool:
      return {{"type", "boolean"}};
    case Type::kBoolOrObject:
      return {{"type", Json::array({"boolean", "object"})}};
    case Type::kInteger:
      return whole(key);
    case Type::kString:
      return text(key);
    case Type::kEnum:
      return {{"type", "string"}, {"enum", key.enumeration}};
    case Type::kIp:
      return defined("ip", ip);
    case Type::kCidr:
      if (key.enumeration.empty()) return defined("cidr", cidr);
      return {{"anyOf", {defined("cidr", cidr), {{"enum", key.enumeration}}}},
              {"errorMessage", kCidrForm}};
    case Type::kMac:
      return defined("mac", mac);
    case Type::kIpOrCidr:
      return {{"anyOf", {defined("ip", ip), defined("cidr", cidr)}},
              {"errorMessage", "an IP address, with or without prefix length"}};
    case Type::kIntegerOrString:
      return {{"anyOf", {whole(key), text(key)}}};
    case Type::kObject:
      return object(key);
  }
  return true;
}

// The value may also be absent in another way: null, or "".
Json or_absent(Json schema, bool or_empty) {
  if (schema.contains("enum")) {
    if (or_empty) schema["enum"].push_back("");
    schema["enum"].push_back(nullptr);
  }
  const bool narrow = schema.contains("$ref") || (or_empty && schema.contains("pattern"));
  if (!narrow && schema.contains("type")) {
    if (!schema["type"].is_array()) schema["type"] = Json::array({schema["type"]});
    schema["type"].push_back("null");
    return schema;
  }
  Json absent = Json::array({nullptr});
  if (or_empty) absent.insert(absent.begin(), "");
  Json out;
  if (const auto what = schema.find("errorMessage"); what != schema.end())
    out["errorMessage"] = *what;
  schema.erase("errorMessage");
  out["anyOf"] = {std::move(schema), {{"enum", std::move(absent)}}};
  return out;
}

// The table's default, if it is a value.
std::optional<Json> default_of(const Key& key) {
  if (key.default_text == nullptr || key.lists != 0) return std::nullopt;
  const std::string_view text = key.default_text;
  if (key.type == Type::kBool) return text == "true";
  if (text.starts_with('`')) return text.substr(1, text.find('`', 1) - 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Json Writer::property(const Key& key) {
  Json value = element(key);
  if (key.expected != nullptr) value["errorMessage"] = key.expected;
  for (unsigned i = 0; i < key.lists; ++i) value = {{"type", "array"}, {"items", std::move(value)}};
  if (!key.required) value = or_absent(std::move(value), key.or_empty);
  Json out;
  if (key.description[0] != '\0') out["description"] = plain(key.description);
  out.update(value);
  if (const auto other = default_of(key)) out["default"] = *other;
  return out;
}

}  // namespace

std::string plain(std::string_view markdown) {
  std::string out;
  std::remove_copy(markdown.begin(), markdown.end(), std::back_inserter(out), '`');
  return out;
}

Json schema_of_object(const Heading& heading, const Key& object) {
  Writer writer;
  Json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", heading.title},
              {"description", heading.description}};
  out.update(writer.object(object));
  if (Json definitions = writer.take_definitions(); !definitions.empty()) {
    out["$defs"] = std::move(definitions);
  }
  return out;
}

Json schema_of(const std::string& plugin, const Manual& manual, const std::string& release) {
  const ConfigKeys keys(manual);
  Json out = schema_of_object(
      {plugin, cat("Config of the CNI plugin ", plugin, release.empty() ? "" : ", ", release, ": ",
                   plain(manual.purpose))},
      keys.root());
  add_facts(manual.facts, out);
  return out;
}

}  // namespace cni

#include "libcni/config/complaints.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "libcni/config/common_keys.h"
#include "libcni/config/misspelt.h"
#include "libcni/config/names.h"
#include "libcni/config/nearest.h"
#include "netlink/types/mac.h"

namespace cni {

namespace {

using nlohmann::json;

// The name in the object that Reader takes for a key.
std::string spelled(const json& object, const std::string& key) {
  if (object.contains(key)) return key;
  for (auto it = object.begin(); it != object.end(); ++it) {
    if (same_but_for_case(it.key(), key)) return it.key();
  }
  return "";
}

std::string below(const std::string& path, const std::string& key) {
  return path.empty() ? key : cat(path, ".", key);
}

// The path at which a key of this name is listed: "ipam.subnet"; empty where it is not.
std::string place_of(KeyList keys, const std::string& name) {
  for (const Key& key : keys) {
    if (same_but_for_case(key.name, name)) return key.name;
  }
  for (const Key& key : keys) {
    const std::string inner = place_of(key.keys, name);
    if (inner.empty()) continue;
    std::string out = key.name;
    for (unsigned i = 0; i < key.lists; ++i) out += "[]";
    return below(out, inner);
  }
  return "";
}

bool is_integer(const Key& key, const json& value) try {
  read_integer(Reader(value), key);
  return true;
} catch (const Error&) {
  return false;
}

bool allows_text(const Key& key, const std::string& text) {
  if (key.or_empty && text.empty()) return true;
  if (key.fits != nullptr) return key.fits(text);
  const auto mac = key.type == Type::kMac ? netlink::Mac::parse(text) : std::nullopt;
  switch (key.type) {
    case Type::kString:
    case Type::kIntegerOrString:
      return true;
    case Type::kEnum:
      return std::ranges::find(key.enumeration, text) != key.enumeration.end();
    case Type::kIp:
      return Ip::parse(text).has_value();
    case Type::kCidr:
      return Cidr::parse(text) || std::ranges::find(key.enumeration, text) != key.enumeration.end();
    case Type::kIpOrCidr:
      return Ip::parse(text) || Cidr::parse(text);
    case Type::kMac:
      return mac && !mac->is_zero() && !mac->is_multicast();
    case Type::kBool:
    case Type::kBoolOrObject:
    case Type::kInteger:
    case Type::kObject:
      return false;
  }
  return false;
}

bool has_nul(const json& value) {
  return value.is_string() && value.get_ref<const std::string&>().find('\0') != std::string::npos;
}

bool allows(const Key& key, const json& value) {
  if (value.is_string()) return allows_text(key, value.get_ref<const std::string&>());
  if (key.type == Type::kBool) return value.is_boolean();
  if (key.type == Type::kBoolOrObject) return value.is_boolean() || value.is_object();
  if (key.type == Type::kObject) return value.is_object();
  return (key.type == Type::kInteger || key.type == Type::kIntegerOrString) &&
         is_integer(key, value);
}

std::string expected(const Key& key) {
  return cat("expected ", key.lists > 0 ? "a list" : expectation(key));
}

// Other ways to write what may have been meant.
std::vector<json> rewritten(const json& value) {
  std::vector<json> out;
  if (value.is_string()) {
    const std::string text = lower(value.get<std::string>());
    for (const char* const yes : {"true", "yes", "on", "1"}) {
      if (text == yes) out.emplace_back(true);
    }
    for (const char* const no : {"false", "no", "off", "0"}) {
      if (text == no) out.emplace_back(false);
    }
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) out.emplace_back(number);
  }
  if (value.is_number()) out.emplace_back(value.dump());
  if (value == 1) out.emplace_back(true);
  if (value == 0) out.emplace_back(false);
  if (value.is_number_float() && value == std::floor(value.get<double>()) &&
      std::abs(value.get<double>()) < 1e15) {
    out.emplace_back(static_cast<std::int64_t>(value.get<double>()));
  }
  out.push_back(json::array({value}));
  if (value.is_array() && value.size() == 1) out.push_back(value[0]);
  return out;
}

/// Walks through a config beside its table.
class Walk {
 public:
  explicit Walk(KeyList root, bool suggests = true) : root_(root), suggests_(suggests) {}

  void check(const Key& key, const json& value, const std::string& path);
  std::vector<Complaint> take() { return std::move(out_); }

 private:
  bool fits(const Key& key, const json& value) const;
  std::string suggestion(const Key& key, const json& value) const;
  void check_object(const Key& of, const json& object, const std::string& path);
  void check_name(const Key& of, const json::const_iterator& member, const std::string& path);

  KeyList root_;
  bool suggests_;
  std::vector<Complaint> out_;
};

bool Walk::fits(const Key& key, const json& value) const {
  Walk trial(root_, false);
  trial.check(key, value, "");
  return trial.out_.empty();
}

void Walk::check(const Key& key, const json& value, const std::string& path) {
  if (has_nul(value)) {
    out_.push_back({path, cat(kNoNul, ": ", shortened(value)), {}});
  } else if (key.lists > 0 ? !value.is_array() : !allows(key, value)) {
    out_.push_back({path, cat(expected(key), ": ", shortened(value)), suggestion(key, value)});
  } else if (key.lists > 0) {
    Key element = key;
    --element.lists;
    for (std::size_t i = 0; i < value.size(); ++i) check(element, value[i], cat(path, "[", i, "]"));
  } else if (value.is_object()) {
    check_object(key, value, path);
  }
}

std::string Walk::suggestion(const Key& key, const json& value) const {
  constexpr std::size_t kMax = 60;
  if (!suggests_) return "";
  if (value.is_string() && key.lists == 0) {
    const std::string word =
        nearest(value.get<std::string>(), {key.enumeration.begin(), key.enumeration.end()});
    if (!word.empty()) return json(word).dump();
  }
  for (const json& other : rewritten(value)) {
    if (!fits(key, other)) continue;
    std::string text = other.dump();
    return text.size() > kMax ? "" : text;
  }
  return "";
}

void Walk::check_object(const Key& of, const json& object, const std::string& path) {
  for (const Key& key : of.keys) {
    const std::string name = spelled(object, key.name);
    const std::string place = below(path, key.name);
    if (!name.empty() && !object[name].is_null()) {
      check(key, object[name], place);
    } else if (key.required) {
      out_.push_back({place, cat(expected(key), ": the key is missing"), {}});
    }
  }
  for (auto it = object.begin(); it != object.end(); ++it) check_name(of, it, path);
}

void Walk::check_name(const Key& of, const json::const_iterator& member, const std::string& path) {
  const std::string& name = member.key();
  const std::string place = below(path, name);
  for (const Key& key : of.keys) {
    if (same_but_for_case(key.name, name)) return;
  }
  if (!of.open) {
    std::string meant = similar_key(name, of.keys);
    if (meant.empty() && !of.flags) meant = place_of(root_, name);  // capabilities have any name
    out_.push_back({place, kUnknownKey, meant == name ? "" : meant});
  } else if (of.flags && !member->is_null()) {
    check({.type = Type::kBool}, *member, place);
  }
}

}  // namespace

std::string Complaint::str() const {
  const std::string where = path.empty() ? "config" : path;
  return cat(where, ": ", what, suggestion.empty() ? "" : cat(" (did you mean ", suggestion, "?)"));
}

std::vector<Complaint> complaints(const Key& object, const json& config) {
  Walk walk(object.keys);
  walk.check(object, config, "");
  return walk.take();
}

std::vector<Complaint> complaints(const Manual& manual, const json& config) {
  const ConfigKeys keys(manual);
  return complaints(keys.root(), config);
}

nlohmann::ordered_json json_of(const std::vector<Complaint>& complaints) {
  auto out = nlohmann::ordered_json::array();
  for (const Complaint& one : complaints) {
    out.push_back({{"path", one.path}, {"message", one.what}});
    if (!one.suggestion.empty()) out.back()["suggestion"] = one.suggestion;
  }
  return out;
}

std::vector<Complaint> complaints_in(const json& list) {
  std::vector<Complaint> out;
  for (const json& one : list) {
    Complaint complaint;
    try {
      const Reader place(one);
      place.into("path", complaint.path);
      complaint.what = place["message"].as_string();
      place.into("suggestion", complaint.suggestion);
    } catch (const Error&) {
      continue;
    }
    out.push_back(std::move(complaint));
  }
  return out;
}

}  // namespace cni

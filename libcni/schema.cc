#include "libcni/schema.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "libcni/conf.h"
#include "libcni/nearest.h"
#include "libcni/schema_keywords.h"

namespace cni {

namespace {

using nlohmann::json;

bool same(std::string_view a, std::string_view b) { return lower(a) == lower(b); }

// The key of the object that a plugin takes for a property: see Reader.
std::string key_for(const json& object, const std::string& property) {
  if (object.contains(property)) return property;
  for (auto it = object.begin(); it != object.end(); ++it) {
    if (same(it.key(), property)) return it.key();
  }
  return "";
}

std::string below(const std::string& path, const std::string& key) {
  return path.empty() || key.starts_with('[') ? path + key : cat(path, ".", key);
}

const json& properties_of(const json& schema) {
  static const json kNone = json::object();
  const json* const properties = keyword(schema, "properties");
  return properties != nullptr && properties->is_object() ? *properties : kNone;
}

// The place, seen from a schema, where a key of this name is known.
std::optional<std::string> place_of(const json& root, const json& schema, const std::string& key,
                                    int levels = 6) {
  if (levels == 0) return std::nullopt;
  const json& here = resolved(root, schema);
  const json& properties = properties_of(here);
  for (auto it = properties.begin(); it != properties.end(); ++it) {
    if (same(it.key(), key)) return it.key();
  }
  for (auto it = properties.begin(); it != properties.end(); ++it) {
    if (const auto place = place_of(root, *it, key, levels - 1)) return below(it.key(), *place);
  }
  if (const json* const items = keyword(here, "items")) {
    if (const auto place = place_of(root, *items, key, levels - 1)) return below("[]", *place);
  }
  if (const json* const branches = keyword(here, "anyOf")) {
    for (const json& branch : *branches) {
      if (const auto place = place_of(root, branch, key, levels - 1)) return place;
    }
  }
  return std::nullopt;
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

/// Walks through a config beside its schema.
class Walk {
 public:
  explicit Walk(const json& root) : root_(root) {}

  void check(const json& schema, const json& value, const std::string& path);
  std::vector<Complaint> take() { return std::move(out_); }

 private:
  bool fits(const json& schema, const json& value);
  void complain(const json& schema, const json& value, const std::string& path);
  std::string suggestion(const json& schema, const json& value);
  void check_branches(const json& schema, const json& value, const std::string& path);
  void check_object(const json& schema, const json& object, const std::string& path);
  void check_missing(const json& schema, const json& object, const std::string& path);
  void check_unknown(const json& schema, const json& object, const std::string& path);

  const json& root_;
  std::vector<Complaint> out_;
  bool only_trying_ = false;  // whether it fits, not what to do about it
  int depth_ = 0;
  int steps_ = 0;
};

bool Walk::fits(const json& schema, const json& value) {
  Walk trial(root_);
  trial.only_trying_ = true;
  trial.depth_ = depth_;
  trial.steps_ = steps_;
  trial.check(schema, value, "");
  steps_ = trial.steps_;
  return trial.out_.empty();
}

void Walk::check(const json& schema, const json& value, const std::string& path) {
  constexpr int kMostDepth = 100;  // a schema may lead back to itself, by several ways
  constexpr int kMostSteps = 100'000;
  const json& here = resolved(root_, schema);
  if (here == false || !allows(here, value)) return complain(here, value, path);
  if (!here.is_object() || depth_ >= kMostDepth || ++steps_ >= kMostSteps) return;
  ++depth_;
  const json* const all = keyword(here, "allOf");
  const json* const items = keyword(here, "items");
  if (all != nullptr && all->is_array()) {
    for (const json& one : *all) check(one, value, path);
  }
  if (keyword(here, "anyOf") != nullptr) check_branches(here, value, path);
  if (value.is_object()) check_object(here, value, path);
  if (value.is_array() && items != nullptr) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      check(*items, value[i], cat(path, "[", i, "]"));
    }
  }
  --depth_;
}

void Walk::check_branches(const json& schema, const json& value, const std::string& path) {
  const json& branches = schema["anyOf"];
  if (!branches.is_array()) return;
  for (const json& branch : branches) {
    if (fits(branch, value)) return;
  }
  for (const json& branch : branches) {  // what is wrong further down is said there
    const json& here = resolved(root_, branch);
    if (value.is_structured() && keyword(here, "type") && allows_type(here, value)) {
      return check(here, value, path);
    }
  }
  complain(schema, value, path);
}

void Walk::complain(const json& schema, const json& value, const std::string& path) {
  const std::string wanted = expectation(root_, schema);
  const std::string what = wanted.empty() ? "not allowed" : cat("expected ", wanted);
  out_.push_back({path, cat(what, ": ", shortened(value)), suggestion(schema, value)});
}

std::string Walk::suggestion(const json& schema, const json& value) {
  constexpr std::size_t kMost = 60;
  if (schema == false || only_trying_) return "";
  if (value.is_string()) {
    std::vector<std::string> words;
    if (const json* const list = keyword(schema, "enum")) {
      for (const json& word : *list) {
        if (!word.is_string()) continue;
        const auto& text = word.get_ref<const std::string&>();
        if (!text.empty()) words.push_back(text);
      }
    }
    const std::string word = nearest(value.get<std::string>(), words);
    if (!word.empty()) return json(word).dump();
  }
  for (const json& other : rewritten(value)) {
    if (!fits(schema, other)) continue;
    std::string text = other.dump();
    return text.size() > kMost ? "" : text;
  }
  return "";
}

void Walk::check_object(const json& schema, const json& object, const std::string& path) {
  const json& properties = properties_of(schema);
  for (auto it = properties.begin(); it != properties.end(); ++it) {
    const std::string key = key_for(object, it.key());
    if (key.empty() || object[key].is_null()) continue;
    check(*it, object[key], below(path, it.key()));
  }
  check_missing(schema, object, path);
  check_unknown(schema, object, path);
}

void Walk::check_missing(const json& schema, const json& object, const std::string& path) {
  const json* const required = keyword(schema, "required");
  if (required == nullptr || !required->is_array()) return;
  for (const json& name : *required) {
    if (!name.is_string()) continue;
    const std::string key = key_for(object, name.get<std::string>());
    if (!key.empty() && !object[key].is_null()) continue;
    const json property = properties_of(schema).value(name.get<std::string>(), json());
    out_.push_back({below(path, name.get<std::string>()),
                    cat("expected ", expectation(root_, property), ": the key is missing"),
                    {}});
  }
}

void Walk::check_unknown(const json& schema, const json& object, const std::string& path) {
  const json* const more = keyword(schema, "additionalProperties");
  std::vector<std::string> names;
  const json& properties = properties_of(schema);
  for (auto it = properties.begin(); it != properties.end(); ++it) names.push_back(it.key());
  for (auto it = object.begin(); it != object.end(); ++it) {
    const auto known = std::find_if(names.begin(), names.end(), [&it](const std::string& name) {
      return same(name, it.key());
    });
    if (known != names.end()) {
      const std::string used = key_for(object, *known);
      if (used == it.key()) continue;
      out_.push_back({below(path, it.key()), cat("the key is there already, as ", used), {}});
    } else if (more != nullptr && *more == false && !keyword(schema, "patternProperties")) {
      std::string meant = nearest(it.key(), names);
      if (meant.empty()) meant = place_of(root_, root_, it.key()).value_or("");
      out_.push_back({below(path, it.key()), "unknown key", std::move(meant)});
    } else if (more != nullptr && !it->is_null() && !keyword(schema, "patternProperties")) {
      check(*more, *it, below(path, it.key()));
    }
  }
}

}  // namespace

std::string Complaint::str() const {
  const std::string where = path.empty() ? "config" : path;
  return cat(where, ": ", what, suggestion.empty() ? "" : cat(" (did you mean ", suggestion, "?)"));
}

std::vector<Complaint> complaints(const json& schema, const json& config) {
  Walk walk(schema);
  walk.check(schema, config, "");
  return walk.take();
}

}  // namespace cni

#include "libcni/config/misspelt.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "libcni/config/common_keys.h"
#include "libcni/config/nearest.h"

namespace cni {

namespace {

using nlohmann::json;

constexpr std::string_view kOfRuntime = "runtimeConfig";

// Keys of other plugins and of runtimes (Multus: deviceID) that resemble a key and do not mean it.
struct Unlike {
  std::string_view unknown, known;
};
constexpr Unlike kUnlike[] = {{"delegates", "delegate"},
                              {"deviceID", "device"},
                              {"gateway", "isGateway"},
                              {"isGateway", "gateways"},
                              {"noSnat", "snat"}};

bool is_unlike(std::string_view unknown, std::string_view known) {
  return std::ranges::any_of(
      kUnlike, [&](const Unlike& pair) { return pair.unknown == unknown && pair.known == known; });
}

// The key of exactly this name; null: there is none.
const Key* find_exact(KeyList keys, const std::string& name) {
  const auto* const found = std::ranges::find_if(keys, [&name](const Key& key) {
    return key.name[0] == name[0] && std::strcmp(key.name, name.c_str()) == 0;
  });
  return found == keys.end() ? nullptr : found;
}

bool knows_all(KeyList keys, const json& object);

// Whether all keys in a value of this key are known.
bool knows_all_in(const Key& key, const json& value) {
  if (key.keys.begin() == key.keys.end() || key.open) return true;
  if (value.is_object()) return knows_all(key.keys, value);
  return !value.is_array() || std::ranges::all_of(value, [&key](const json& element) {
    return knows_all_in(key, element);
  });
}

bool knows_all(KeyList keys, const json& object) {
  const auto& members = object.get_ref<const json::object_t&>();
  return std::ranges::all_of(members, [keys](const auto& member) {
    const Key* const key = find_exact(keys, member.first);
    return key != nullptr && knows_all_in(*key, member.second);
  });
}

bool knows_all(const Manual& manual, const json& config) {
  const Key* const runtime = find_exact(manual.keys, std::string(kOfRuntime));
  const auto& members = config.get_ref<const json::object_t&>();
  return std::ranges::all_of(members, [&](const auto& member) {
    const auto& [name, value] = member;
    if (name == "capabilities" && value.is_object()) {
      return knows_all(runtime == nullptr ? KeyList() : runtime->keys, value);
    }
    const Key* key = find_exact(manual.keys, name);
    if (key == nullptr) key = find_exact(common_keys(), name);
    return key == nullptr ? manual.facts.has(Fact::kIpam) : knows_all_in(*key, value);
  });
}

std::string_view last_step(std::string_view path) { return path.substr(path.rfind('.') + 1); }

}  // namespace

std::string similar_key(const std::string& unknown, KeyList keys) {
  std::vector<std::string> names;
  for (const Key& key : keys) {
    if (!is_unlike(unknown, key.name)) names.emplace_back(key.name);
  }
  return nearest(unknown, names);
}

std::vector<Complaint> misspelt_keys(const Manual& manual, const json& config) {
  if (!config.is_object() || knows_all(manual, config)) return {};
  auto out = complaints(manual, config);
  std::erase_if(out, [](const Complaint& one) {
    const bool is_elsewhere = same_but_for_case(last_step(one.path), last_step(one.suggestion));
    return one.what != kUnknownKey || one.suggestion.empty() || is_elsewhere ||
           one.path.starts_with(kOfRuntime);
  });
  return out;
}

}  // namespace cni

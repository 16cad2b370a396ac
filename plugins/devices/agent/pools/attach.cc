#include "plugins/devices/agent/pools/attach.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

namespace devices {

namespace {

using Json = nlohmann::ordered_json;

// Keys of `attach` that the plugin of a kind has itself; tuning has the others.
bool has_itself(std::string_view type, std::string_view key) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), key) != names.end();
  };
  if (is_one_of({"ipam", "dns", "dnsFromIPAM", "ignoreDefaultRoute", "enabledad"})) return true;
  if (type == "host-device") return false;
  return key == "mtu" || (key == "mac" && (type == "macvlan" || type == "tap"));
}

Json list_of(const Pool& pool, Json first) {
  Json tuning = {{"type", "tuning"}};
  const std::string type = first["type"].get<std::string>();
  const nlohmann::json& keys = *pool.attach.keys;
  for (const auto& [key, value] : keys.items()) {
    (has_itself(type, key) ? first : tuning)[key] = Json(value);
  }
  Json out = Json::array({std::move(first)});
  if (tuning.size() > 1) out.push_back(std::move(tuning));
  return out;
}

}  // namespace

Json plugins_for(const Pool& pool, SelectBy by, const std::string& value) {
  Json first = {{"type", "host-device"}};
  switch (by) {
    case SelectBy::kPci:
      first["pciBusID"] = value;
      break;
    case SelectBy::kAuxiliary:
      first["runtimeConfig"] = {{"deviceID", value}};
      break;
    case SelectBy::kName:
      first["device"] = value;
      break;
  }
  return list_of(pool, std::move(first));
}

Json plugins_for_slot(const Pool& pool, unsigned number) {
  const Slots& slots = pool.slots.front();
  Json first = {{"type", str(slots.kind)}};
  const bool has_master = slots.kind != SlotKind::kTap;
  if (has_master) first["master"] = slots.parent;
  if (slots.kind == SlotKind::kVlan) first["vlanId"] = number;
  const nlohmann::json& keys = *slots.keys;
  for (const auto& [key, value] : keys.items()) first[key] = Json(value);
  return list_of(pool, std::move(first));
}

}  // namespace devices

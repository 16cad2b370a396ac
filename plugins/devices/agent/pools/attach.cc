#include "plugins/devices/agent/pools/attach.h"

#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/config/conf.h"
#include "libcni/config/names.h"
#include "libcni/config/nearest.h"

namespace devices {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kType = "type";
constexpr const char* kRuntimeConfig = "runtimeConfig";

// Keys match in any case: a null of the config would be a second value of an added one.
bool has(const Json& object, const std::string& name) {
  for (const auto& [key, value] : object.items()) {
    if (cni::same_but_for_case(key, name)) return true;
  }
  return false;
}

// The chained plugin reads "type" as it is spelled here.
Json complete(const nlohmann::json& config, const Json& added) {
  Json first = {{kType, cni::Reader(config)[kType].as_string()}};
  first.update(added);
  Json out = first;
  for (const auto& [key, value] : config.items()) {
    if (!has(first, key)) out[key] = Json(value);
  }
  return out;
}

}  // namespace

bool takes_link_names(const Pool& pool) { return cni::stands_for(pool.type(), "host-device"); }

Json keys_added(const Pool& pool, SelectBy by, const std::string& value) {
  if (by == SelectBy::kName) {
    if (takes_link_names(pool)) return {{"device", value}};
    throw cni::Error(cni::Code::kInvalidConfig,
                     cni::cat("name link '", value, "' to plugin '", pool.type(),
                              "': only PCI and auxiliary devices have a deviceID"));
  }
  if (!takes_link_names(pool)) return {{"deviceID", value}};
  if (by == SelectBy::kPci) return {{"pciBusID", value}};
  const cni::Reader written = cni::Reader(pool.plugins->front())[kRuntimeConfig];
  Json runtime = written.present() ? Json(written.json()) : Json::object();
  runtime["deviceID"] = value;
  return {{kRuntimeConfig, std::move(runtime)}};
}

Json keys_added(const Pool& pool, unsigned slot) {
  Json out = Json::object();
  const Slots& slots = pool.slots.front();
  if (!slots.parent.empty()) out["master"] = slots.parent;
  if (!slots.vlan_ids.empty()) out["vlanId"] = slot;
  return out;
}

Json plugins_with(const Pool& pool, const Json& added) {
  Json out = Json::array();
  for (const nlohmann::json& one : *pool.plugins) {
    out.push_back(complete(one, out.empty() ? added : Json::object()));
  }
  return out;
}

}  // namespace devices

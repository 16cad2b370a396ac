#include "cnitool/delegate.h"

#include <nlohmann/json.hpp>

#include "cnitool/json_at.h"
#include "cnitool/known_plugins.h"
#include "libcni/config/subnet_env.h"

namespace tool {

namespace {

using nlohmann::json;

json object_at(const json& conf, const char* key) {
  const json* const found = member(conf, key);
  return found != nullptr && found->is_object() ? *found : json::object();
}

}  // namespace

std::optional<cni::PluginConf> delegate_of(const cni::PluginConf& plugin) {
  if (!facts_of(plugin.type).has(cni::Fact::kDelegates) || !plugin.conf->is_object())
    return std::nullopt;
  const json delegate = object_at(*plugin.conf, "delegate");
  if (delegate.contains("type") && !delegate["type"].is_string()) return std::nullopt;
  cni::JsonValue conf;
  try {
    const auto env = cni::SubnetEnv::read(text_at(*plugin.conf, "subnetFile", cni::kSubnetEnv));
    conf =
        env.value_or(cni::SubnetEnv{}).delegate_config(delegate, object_at(*plugin.conf, "ipam"));
  } catch (const std::exception&) {
    return std::nullopt;
  }
  auto type = conf->at("type").get<std::string>();
  return cni::PluginConf{.type = std::move(type), .conf = std::move(conf)};
}

cni::PluginConf effective(const cni::PluginConf& plugin) {
  return delegate_of(plugin).value_or(plugin);
}

}  // namespace tool

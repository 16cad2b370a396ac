#include "cnitool/delegate.h"

#include <nlohmann/json.hpp>

#include "cnitool/json_at.h"
#include "libcni/config/names.h"
#include "libcni/config/subnet_env.h"

namespace tool {

namespace {

using nlohmann::json;

void add_subnets(json& conf, const cni::SubnetEnv& env) {
  json& ranges = conf["ipam"]["ranges"] = json::array();
  for (const auto& subnet : {env.subnet, env.ipv6_subnet}) {
    if (subnet) ranges.push_back({{{"subnet", subnet->network().str()}}});
  }
  if (env.mtu && !conf.contains("mtu")) conf["mtu"] = *env.mtu;
  if (env.ip_masq && !conf.contains("ipMasq")) conf["ipMasq"] = !*env.ip_masq;
}

json conf_of(const json& flannel) {
  const json* const delegate = member(flannel, "delegate");
  const json* const ipam = member(flannel, "ipam");
  json out = delegate != nullptr && delegate->is_object() ? *delegate : json::object();
  if (!out.contains("type")) out["type"] = "bridge";
  if (out["type"] == "bridge" && !out.contains("isGateway")) out["isGateway"] = true;
  out["ipam"] = ipam != nullptr && ipam->is_object() ? *ipam : json::object();
  if (!out["ipam"].contains("type")) out["ipam"]["type"] = "host-local";
  return out;
}

}  // namespace

std::optional<cni::PluginConf> delegate_of(const cni::PluginConf& plugin) {
  if (!cni::stands_for(plugin.type, "flannel") || !plugin.conf->is_object()) return std::nullopt;
  json conf = conf_of(*plugin.conf);
  if (!conf["type"].is_string()) return std::nullopt;
  try {
    const auto env = cni::SubnetEnv::read(text_at(*plugin.conf, "subnetFile", cni::kSubnetEnv));
    if (env) add_subnets(conf, *env);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  auto type = conf["type"].get<std::string>();
  return cni::PluginConf{.type = std::move(type), .conf = std::move(conf)};
}

cni::PluginConf effective(const cni::PluginConf& plugin) {
  return delegate_of(plugin).value_or(plugin);
}

}  // namespace tool

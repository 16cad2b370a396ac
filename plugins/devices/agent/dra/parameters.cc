#include "plugins/devices/agent/dra/parameters.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "libcni/common/error.h"
#include "libcni/config/conf.h"
#include "libcni/config/names.h"
#include "libcni/config/nearest.h"
#include "plugins/devices/agent/dra/promise.h"

namespace devices::dra {

namespace {

using cni::cat;
using cni::Reader;

constexpr const char* kType = "type";
constexpr std::array<std::string_view, 4> kChained = {"tuning", "sbr", "bandwidth", "vrf"};
/// Of the first plugin: what the agent says itself.
constexpr const char* kDeviceKeys[] = {"device",     "deviceID", "pciBusID", "hwaddr",
                                       "kernelpath", "master",   "vlanId"};
/// What a claim must not choose: other networks of the node, and files.
constexpr const char* kClassKeys[] = {"bridge",          "vlan",       "vlanTrunk",
                                      "linkInContainer", "dataDir",    "resolvConf",
                                      "podCidrFile",     "subnetFile", "daemonSocketPath"};
/// Of the plugin bandwidth, where the scheduler counts what claims consume: they let traffic past
/// the limit.
constexpr const char* kUncountedKeys[] = {"shapedSubnets", "unshapedSubnets", "runtimeConfig",
                                          "burstTime"};
constexpr std::size_t kMaxLevels = 16;
constexpr std::size_t kMaxPlugins = 16;

// The key of an object as it is spelled there: plugins match keys in any case.
std::optional<std::string> spelled(const Json& object, std::string_view key) {
  for (const auto& [name, value] : object.items()) {
    if (cni::same_but_for_case(name, key)) return name;
  }
  return std::nullopt;
}

// What a program or a file of the node is named by. \param before the pool's value of the same key
void require_harmless(const Reader& place, const Json* before, std::size_t depth) {
  const Json& value = place.json();
  if (depth > kMaxLevels) place.fail(cat("expected at most ", kMaxLevels, " levels"));
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.starts_with('/') || text.find("..") != text.npos) {
      place.fail("expected no path: only a DeviceClass may name one");
    }
  }
  if (value.is_array()) {
    for (const Reader& one : place.elements()) require_harmless(one, nullptr, depth + 1);
  }
  if (!value.is_object()) return;
  for (const auto& [name, part] : value.items()) {
    const Reader inner(part, cni::Code::kInvalidConfig, cat(place.path(), ".", name));
    for (const char* const key : kClassKeys) {
      if (cni::same_but_for_case(name, key)) {
        inner.fail("expected no such key: only a DeviceClass may set it");
      }
    }
    const bool is_known = before != nullptr && before->is_object();
    const auto own = is_known ? spelled(*before, name) : std::nullopt;
    const Json* const was = own ? &before->at(*own) : nullptr;
    if (cni::same_but_for_case(name, kType) && (was == nullptr || *was != part)) {
      inner.fail("expected the type that the pool has: only a DeviceClass may choose another");
    }
    if (!part.is_null()) require_harmless(inner, was, depth + 1);
  }
}

void require_no_device(const Reader& plugin) {
  for (const char* const key : kDeviceKeys) {
    if (plugin[key].present()) plugin[key].fail("expected no such key, patchbay-agent sets it");
  }
  const Reader runtime = plugin["runtimeConfig"];
  if (runtime.present() && runtime["deviceID"].present()) {
    runtime["deviceID"].fail("expected no such key, patchbay-agent sets it");
  }
}

void require_counted(const Reader& plugin) {
  for (const char* const key : kUncountedKeys) {
    if (!plugin[key].present()) continue;
    plugin[key].fail(
        "expected no such key: the bandwidth of the claim limits all traffic of its slot");
  }
}

void replace_keys(Json& plugin, const Json& by) {
  for (const auto& [name, value] : by.items()) {
    if (cni::same_but_for_case(name, kType)) continue;
    if (const auto own = spelled(plugin, name)) plugin.erase(*own);
    if (!value.is_null()) plugin[name] = value;
  }
}

void apply(Pool& pool, const Reader& plugin, const Config& from) {
  if (!plugin.json().is_object()) plugin.fail("expected an object");
  const Reader named = plugin[kType];
  if (!named.present()) plugin.fail("expected a type");
  const std::string type = named.as_string();
  Json list = *pool.plugins;
  const auto own = std::ranges::find_if(
      list, [&](const Json& one) { return Reader(one)[kType].as_string() == type; });
  const bool is_first = own == list.begin();
  check_plugin(plugin, pool, is_first);
  if (is_first) require_no_device(plugin);
  const bool is_chained = std::ranges::find(kChained, type) != kChained.end();
  if (own == list.end() && !is_chained) {
    named.fail("expected a plugin of the pool, or tuning, sbr, bandwidth or vrf");
  }
  const Json before = own != list.end() ? *own : Json{{kType, type}};
  if (!from.is_from_class) require_harmless(plugin, &before, 0);
  if (!from.is_from_class && type == "bandwidth" && is_shared(pool)) require_counted(plugin);
  if (own == list.end()) {
    if (list.size() >= kMaxPlugins) named.fail(cat("expected at most ", kMaxPlugins, " plugins"));
    list.push_back(before);
    replace_keys(list.back(), plugin.json());
  } else {
    replace_keys(*own, plugin.json());
  }
  pool.plugins = std::move(list);
}

using Ordered = nlohmann::ordered_json;

// Those make a veth, at whose end on the node traffic to the pod can be held back.
bool has_host_end(const std::string& type) {
  return cni::stands_for(type, "bridge") || cni::stands_for(type, "ptp");
}

std::string text_of(const Ordered& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Nothing: unlimited.
std::optional<std::int64_t> rate_in(const Ordered& plugin, const std::string& key) {
  const auto found = plugin.find(key);
  if (found == plugin.end() || !found->is_number_integer()) return std::nullopt;
  const auto rate = found->get<std::int64_t>();
  return rate > 0 ? std::optional(rate) : std::nullopt;
}

// The names of keys as this file spells them.
void respell(Ordered& plugin, std::string_view key) {
  const Ordered before = plugin;
  for (const auto& [name, value] : before.items()) {
    if (name == key || !cni::same_but_for_case(name, key)) continue;
    plugin[std::string(key)] = value;
    plugin.erase(name);
  }
}

}  // namespace

Pool merged(Pool pool, const std::vector<Config>& configs, const std::string& request) {
  for (const Config& one : configs) {
    if (!one.is_for(request)) continue;
    const Reader root(one.parameters, cni::Code::kInvalidConfig, one.at);
    if (!one.parameters.is_object()) root.fail("expected an object");
    for (const auto& [name, value] : one.parameters.items()) {
      if (name == "plugins" || name == "ifname") continue;
      throw cni::Error(cni::Code::kInvalidConfig,
                       cat(one.at, ".", name, ": unknown key, expected plugins or ifname"));
    }
    for (const Reader& plugin : root["plugins"].elements()) apply(pool, plugin, one);
    const Reader ifname = root["ifname"];
    if (!ifname.present()) continue;
    pool.ifname = ifname.as_string();
    if (!is_interface_name(pool.ifname)) ifname.fail(cat("expected ", kInterfaceNameForm));
  }
  return pool;
}

nlohmann::ordered_json with_bandwidth(nlohmann::ordered_json plugins, std::int64_t rate) {
  const bool is_veth = has_host_end(text_of(plugins.front(), kType));
  auto own = std::ranges::find_if(
      plugins, [](const Ordered& one) { return text_of(one, kType) == "bandwidth"; });
  if (own == plugins.end()) {
    plugins.push_back({{kType, "bandwidth"}});
    own = std::prev(plugins.end());
  }
  Ordered& limit = *own;
  for (const char* const key : {"egressRate", "ingressRate", "egressBurst", "ingressBurst",
                                "egressMode", "burstTime", "runtimeConfig"}) {
    respell(limit, key);
  }
  const auto least = std::max<std::int64_t>(rate, 8);
  for (const char* const way : {"egress", "ingress"}) {
    const std::string key = cat(way, "Rate");
    if (key == "ingressRate" && !is_veth) continue;
    if (const auto own_rate = rate_in(limit, key); own_rate && *own_rate <= least) continue;
    limit[key] = least;
    limit.erase(cat(way, "Burst"));
  }
  constexpr int kBurstMs = 10;
  if (!limit.contains("burstTime")) limit["burstTime"] = kBurstMs;
  if (!is_veth && !limit.contains("egressMode")) limit["egressMode"] = "pod";
  return plugins;
}

}  // namespace devices::dra

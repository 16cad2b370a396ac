#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "libcni/common/error.h"
#include "libcni/config/conf.h"
#include "libcni/config/names.h"
#include "libcni/config/nearest.h"
#include "plugins/devices/agent/dra/names.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/names/networks.h"
#include "plugins/state/ledger_entry.h"

namespace devices {

namespace {

using cni::cat;
using cni::Reader;

constexpr std::int64_t kMinShare = 1000;  // bits per second: less is no network

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// A label of Kubernetes: at most that many characters, alphanumeric at both ends.
bool is_label(std::string_view text, std::size_t limit, std::string_view also, bool upper) {
  if (text.empty() || text.size() > limit) return false;
  if (!is_alphanumeric(text.front()) || !is_alphanumeric(text.back())) return false;
  return std::ranges::all_of(text, [&](char c) {
    if (c >= 'A' && c <= 'Z') return upper;
    return is_alphanumeric(c) || also.find(c) != also.npos;
  });
}

bool is_short_name(std::string_view text) { return is_label(text, 63, "-_.", true); }

// A key that is the agent's or the chained plugin's to set.
void refuse_key(const Reader& plugin, const char* key, const std::string& setter) {
  const Reader place = plugin[key];
  if (place.present()) place.fail(cat("expected no such key, ", setter, " sets it"));
}

// The first plugin's keys that name the device, or what its link stands on.
void check_first(const Reader& first, const Pool& pool) {
  if (pool.slots.empty()) {
    for (const char* key : {"pciBusID", "device", "deviceID", "hwaddr", "kernelpath"}) {
      refuse_key(first, key, "patchbay-agent");
    }
    refuse_key(first["runtimeConfig"], "deviceID", "patchbay-agent");
    return;
  }
  const Slots& slots = pool.slots.front();
  if (!slots.parent.empty()) refuse_key(first, "master", "slots.parent");
  if (!slots.vlan_ids.empty()) refuse_key(first, "vlanId", "slots.vlanIds");
}

void check_plugins(const Reader& place, const Pool& pool) {
  if (!place.present() && !pool.slots.empty()) {
    place.fail("expected a list of plugins, of which the first one creates the link");
  }
  const auto plugins = place.elements();
  if (place.present() && plugins.empty()) place.fail("expected one plugin at least");
  for (std::size_t i = 0; i < plugins.size(); ++i) check_plugin(plugins[i], pool, i == 0);
}

void check_slots(const Reader& place, const Slots& slots) {
  const bool has_ids = !slots.vlan_ids.empty();
  for (const char* key : {"count", "first"}) {
    const Reader one = place[key];
    if (one.present() && has_ids) one.fail("expected no such key beside vlanIds");
  }
  if (slots.numbers().empty()) place.fail("expected count or vlanIds");
}

bool is_slot_type(const Pool& pool) {
  return pool.type().find(':') == std::string::npos &&
         is_device_id(pool.slot_id(pool.slots.front().numbers().back()));
}

void check_pool(const Reader& place, const Pool& pool) {
  if (pool.devices.empty() == pool.slots.empty()) {
    place.fail("expected either devices or slots");
  }
  const auto selectors = place["devices"].elements();
  for (const Reader& one : selectors) {
    if (one.json().empty()) one.fail("expected an object with one key at least");
  }
  if (!pool.force.empty() && pool.devices.empty()) place["force"].fail("only with devices");
  if (!pool.slots.empty()) check_slots(place["slots"], pool.slots.front());
  check_plugins(place["plugins"], pool);
  if (!pool.slots.empty() && !is_slot_type(pool)) {
    place["plugins"].elements().front()["type"].fail(
        cat("expected letters, digits, '.', '_' and '-': it is a part of the slots' IDs, which ",
            "have at most ", kMaxId, " bytes"));
  }
}

using Owners = std::map<std::string, std::string>;  // of slots: ID, resource

void add_slots(const Reader& place, const Pool& pool, Owners& owners) {
  const Slots& slots = pool.slots.front();
  const std::vector<unsigned> numbers = slots.numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string id = pool.slot_id(numbers[i]);
    const auto [other, is_new] = owners.emplace(id, pool.resource);
    if (is_new) continue;
    const std::string& owner = other->second;
    if (!slots.vlan_ids.empty()) {
      place["vlanIds"].elements()[i].fail(
          owner == pool.resource
              ? "expected another VLAN ID, it is listed twice"
              : cat("expected another VLAN ID, slot ", id, " belongs to ", owner));
    }
    place.fail(
        cat("slot ", id, " belongs to ", owner, " (\"first\" sets where the numbers begin)"));
  }
}

// A pool is offered in one way: else the scheduler would give a device twice.
void check_way(const Reader& place, Pool& pool, bool has_dra) {
  if (!place.present()) pool.device_plugin = !has_dra;
  if (!has_dra && !pool.device_plugin) place.fail("expected true without dra");
  // DRA has no other way to give a container a character device.
  if (!pool.device_plugin && (pool.rdma || !pool.nodes.empty())) pool.cdi = true;
}

// A DeviceClass selects a pool by the attribute of its resource.
void check_attribute(const Reader& name, const Pool& pool) {
  constexpr std::size_t kMost = 64;
  if (pool.device_plugin || pool.resource.size() <= kMost) return;
  name.fail(
      cat("expected at most ", kMost, " bytes with dra, of whose devices it is an attribute"));
}

// Devices by the parent and plugin of slots that are one: two pools would have one name.
using Parents = std::map<std::string, std::string>;

void check_bandwidth(const Reader& place, const Pool& pool, Parents& parents) {
  const Slots& slots = pool.slots.front();
  if (slots.bandwidth == 0) return;
  const Reader bandwidth = place["bandwidth"];
  if (pool.device_plugin) bandwidth.fail("expected no such key without dra, which counts it");
  if (slots.parent.empty()) bandwidth.fail("expected no such key without parent");
  const auto count = static_cast<std::int64_t>(slots.numbers().size());
  if (slots.bandwidth < kMinShare * count) {
    bandwidth.fail(cat("expected at least ", kMinShare, " bits per second for each slot"));
  }
  const auto [other, is_new] =
      parents.emplace(dra::shared_id(slots.parent, pool.type()), pool.resource);
  if (!is_new)
    bandwidth.fail(cat("only of one pool of this parent and plugin: also of ", other->second));
}

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

bool is_resource_name(const std::string& name) {
  const auto slash = name.find('/');
  if (slash == std::string::npos) return false;
  const std::string domain = name.substr(0, slash), rest = name.substr(slash + 1);
  if (!is_domain(domain) || !is_short_name(rest)) return false;
  // Native resources have that domain, and "requests." is the prefix that quotas put before.
  return domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io") &&
         !name.starts_with("requests.");
}

bool is_domain(const std::string& text) {
  if (text.size() > 200) return false;  // Kubernetes has 253, of which quotas take some
  std::size_t at = 0;
  while (true) {
    const auto end = std::min(text.find('.', at), text.size());
    if (!is_label(std::string_view(text).substr(at, end - at), 63, "-", false)) return false;
    if (end == text.size()) return true;
    at = end + 1;
  }
}

bool is_resource_or_short(const std::string& text) {
  return is_resource_name(text) || is_short_name(text);
}

bool is_interface_name(const std::string& text) {
  const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; };
  constexpr std::string_view kTaken[] = {"lo", "eth0", "all", "default"};
  return cni::is_link_name(text) && std::ranges::find(kTaken, text) == std::end(kTaken) &&
         std::ranges::none_of(text, is_control);
}

bool is_slot_parent(const std::string& text) {
  return cni::is_link_name(text) && is_alphanumeric(text.front()) &&
         std::ranges::all_of(
             text, [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_device_node(const std::string& text) {
  return text.starts_with("/dev/") && !text.ends_with('/') &&
         text.find_first_of(std::string_view("\n\0", 2)) == std::string::npos &&
         cat(text, "/").find("/../") == std::string::npos;
}

bool is_plugin_type(const std::string& text) {
  return !text.empty() && text != "." && text != ".." &&
         text.find_first_of(std::string_view("/\0", 2)) == std::string::npos &&
         !cni::stands_for(text, "devices");
}

std::vector<unsigned> Slots::numbers() const {
  std::vector<unsigned> out;
  for (const int id : vlan_ids) out.push_back(static_cast<unsigned>(id));
  if (!out.empty()) return out;
  for (unsigned i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

std::string Pool::type() const { return Reader(plugins->front())["type"].as_string(); }

std::string Pool::slot_id(unsigned number) const {
  const std::string& parent = slots.front().parent;
  return cat(parent, parent.empty() ? "" : ":", type(), ":", number);
}

void check_plugin(const Reader& plugin, const Pool& pool, bool is_first) {
  for (const char* key : {"cniVersion", "name", "prevResult"}) {
    refuse_key(plugin, key, "the plugin devices");
  }
  const Reader capabilities = plugin["capabilities"];
  if (capabilities.present()) {
    capabilities.fail("expected no such key, no runtime calls the plugin: write runtimeConfig");
  }
  if (is_first) check_first(plugin, pool);
}

void check_pools(const Reader& root, Pools& pools) {
  std::set<std::string> resources;
  Owners owners;
  Parents parents;
  const auto places = root["pools"].elements();
  for (std::size_t i = 0; i < places.size(); ++i) {
    Pool& pool = pools.pools[i];
    const Reader name = places[i]["resource"];
    if (pool.resource.find('/') == std::string::npos) {
      pool.resource = cat(pools.prefix, "/", pool.resource);
    }
    if (!is_resource_name(pool.resource)) name.fail(cat("expected ", kResourceForm));
    if (!resources.insert(pool.resource).second) name.fail("another pool has this resource");
    check_pool(places[i], pool);
    if (!places[i]["plugins"].present()) {
      pool.plugins = nlohmann::json::array({nlohmann::json{{kType, names::kDevicesDelegate}}});
    }
    if (!pool.slots.empty()) add_slots(places[i]["slots"], pool, owners);
    check_way(places[i]["devicePlugin"], pool, pools.dra.has_value());
    check_attribute(name, pool);
    if (!pool.slots.empty()) check_bandwidth(places[i]["slots"], pool, parents);
  }
}

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

Json sample_keys(const Pool& pool) {
  if (pool.slots.empty()) return keys_added(pool, SelectBy::kPci, "0000:00:00.0");
  return keys_added(pool, pool.slots.front().numbers().front());
}

Json plugins_with(const Pool& pool, const Json& added) {
  Json out = Json::array();
  for (const nlohmann::json& one : *pool.plugins) {
    out.push_back(complete(one, out.empty() ? added : Json::object()));
  }
  return out;
}

}  // namespace devices

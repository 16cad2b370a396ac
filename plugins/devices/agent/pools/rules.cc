#include "plugins/devices/agent/pools/rules.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "libcni/common/error.h"
#include "libcni/config/names.h"
#include "netlink/types/mac.h"

namespace devices {

namespace {

using cni::cat;
using cni::Reader;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// A label of Kubernetes: at most that many characters, alphanumeric at both ends.
bool is_label(std::string_view text, std::size_t limit, std::string_view also, bool upper) {
  if (text.empty() || text.size() > limit) return false;
  if (!is_alphanumeric(text.front()) || !is_alphanumeric(text.back())) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    if (c >= 'A' && c <= 'Z') return upper;
    return is_alphanumeric(c) || also.find(c) != also.npos;
  });
}

bool is_short_name(std::string_view text) { return is_label(text, 63, "-_.", true); }

/// Which kinds of slots have a key of their plugins.
struct KindsOf {
  const char* key;
  std::vector<SlotKind> kinds;
};
const std::vector<KindsOf>& kinds_of_keys() {
  using enum SlotKind;
  static const std::vector<KindsOf> out = {
      {"mode", {kMacvlan, kIpvlan}}, {"bcqueuelen", {kMacvlan}}, {"flags", {kIpvlan}},
      {"protocol", {kVlan}},         {"owner", {kTap}},          {"group", {kTap}},
      {"multiQueue", {kTap}},        {"selinuxContext", {kTap}}, {"bridge", {kTap}}};
  return out;
}

bool is_mode_of(SlotKind kind, const std::string& mode) {
  const bool is_layer = mode == "l2" || mode == "l3" || mode == "l3s";
  return mode != "source" && is_layer == (kind == SlotKind::kIpvlan);
}

void check_kind_keys(const Reader& place, const Slots& slots) {
  for (const KindsOf& one : kinds_of_keys()) {
    const Reader value = place[one.key];
    const bool fits = std::find(one.kinds.begin(), one.kinds.end(), slots.kind) != one.kinds.end();
    if (value.present() && !fits) value.fail(cat("slots of kind ", str(slots.kind), " have none"));
  }
  const Reader mode = place["mode"];
  if (mode.present() && !is_mode_of(slots.kind, mode.as_string())) {
    mode.fail(cat("slots of kind ", str(slots.kind), " do not have this mode"));
  }
  if (mode.present() && mode.as_string() == "passthru" && slots.count > 1) {
    place["count"].fail("mode passthru has one slot on a parent");
  }
}

void check_attach(const Reader& attach, const Pool& pool) {
  if (!attach.present()) return;
  const bool has_slots = !pool.slots.empty();
  const auto kind = has_slots ? pool.slots.front().kind : SlotKind::kMacvlan;
  const Reader dad = attach["enabledad"];
  if (dad.present() && has_slots && kind != SlotKind::kMacvlan) {
    dad.fail(cat("slots of kind ", str(kind), " have none"));
  }
  const Reader mac = attach["mac"];
  if (mac.present() && has_slots && kind == SlotKind::kIpvlan) {
    mac.fail("slots of kind ipvlan have the MAC address of their parent");
  }
  for (const char* key : {"dnsFromIPAM", "ignoreDefaultRoute"}) {
    const Reader one = attach[key];
    if (one.present() && one.as_bool() && !attach["ipam"].present()) one.fail("needs ipam");
  }
  const Reader type = attach["ipam"]["type"];
  if (attach["ipam"].present() && (!type.present() || type.as_string().empty())) {
    attach["ipam"].fail("expected an object whose type names the IPAM plugin");
  }
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
  check_attach(place["attach"], pool);
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

bool is_interface_name(const std::string& text) { return cni::is_link_name(text); }

bool is_slot_parent(const std::string& text) {
  return cni::is_link_name(text) && is_alphanumeric(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_device_node(const std::string& text) {
  return text.starts_with("/dev/") && !text.ends_with('/') &&
         text.find_first_of(std::string_view("\n\0", 2)) == std::string::npos &&
         cat(text, "/").find("/../") == std::string::npos;
}

bool is_unicast_mac(const std::string& text) {
  const auto mac = netlink::Mac::parse(text);
  return mac && !mac->is_zero() && !mac->is_multicast();
}

std::string str(SlotKind kind) {
  constexpr const char* kNames[] = {"macvlan", "ipvlan", "vlan", "tap"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<unsigned> Slots::numbers() const {
  std::vector<unsigned> out;
  if (kind == SlotKind::kVlan) {
    if (vlan_id >= 0) out.push_back(static_cast<unsigned>(vlan_id));
    for (const int id : vlan_ids) out.push_back(static_cast<unsigned>(id));
    return out;
  }
  for (unsigned i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

std::string Slots::id(unsigned number) const {
  return cat(parent, parent.empty() ? "" : ":", str(kind), ":", number);
}

void check_slots(const Reader& place, const Slots& slots) {
  const bool is_vlan = slots.kind == SlotKind::kVlan;
  for (const char* key : {"vlanId", "vlanIds"}) {
    const Reader one = place[key];
    if (one.present() && !is_vlan) one.fail("only for slots of kind vlan");
  }
  for (const char* key : {"count", "first"}) {
    const Reader one = place[key];
    if (one.present() && is_vlan) one.fail("slots of kind vlan are counted by vlanIds");
  }
  if (place["vlanId"].present() && place["vlanIds"].present()) {
    place["vlanId"].fail("expected either vlanId or vlanIds");
  }
  if (slots.numbers().empty()) place.fail(is_vlan ? "expected vlanIds" : "expected count");
  if (slots.parent.empty() && slots.kind != SlotKind::kTap) place.fail("expected parent");
  check_kind_keys(place, slots);
}

void check_pools(const Reader& root, Pools& pools) {
  std::set<std::string> resources;
  std::map<std::string, std::string> owners;  // of slots
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
    if (pool.slots.empty()) continue;
    const Slots& slots = pool.slots.front();
    for (const unsigned number : slots.numbers()) {
      const auto [other, is_new] = owners.emplace(slots.id(number), pool.resource);
      if (is_new) continue;
      places[i]["slots"].fail(other->second == pool.resource
                                  ? cat("slot ", slots.id(number), " is listed twice")
                                  : cat("slot ", slots.id(number), " belongs to ", other->second,
                                        " (\"first\" sets where the numbers begin)"));
    }
  }
}

}  // namespace devices

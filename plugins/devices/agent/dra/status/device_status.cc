#include "plugins/devices/agent/dra/status/device_status.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "netlink/types/ip.h"

namespace devices::dra {

namespace {

using cni::cat;

std::string member_text(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// The list at a path of keys; empty where there is none.
Json nested_list(const Json& object, std::initializer_list<const char*> path) {
  const Json* at = &object;
  for (const char* const key : path) {
    if (!at->is_object()) return Json::array();
    const auto found = at->find(key);
    if (found == at->end()) return Json::array();
    at = &*found;
  }
  return at->is_array() ? *at : Json::array();
}

// Elements with equal keys are one.
std::array<std::string, 4> device_key(const Json& device) {
  return {member_text(device, "driver"), member_text(device, "pool"), member_text(device, "device"),
          member_text(device, "shareID")};
}

const Json* element(const Json& list, const Json& device) {
  const auto found = std::ranges::find_if(
      list, [&](const Json& one) { return device_key(one) == device_key(device); });
  return found == list.end() ? nullptr : &*found;
}

// What CNI ADD returned of the interface (section "Success" of the spec of CNI).
Json network_of(const Holder& holder) {
  Json out = {{"interfaceName", holder.interface.substr(0, kMaxInterfaceName)}};
  const Json result = cni::try_parse_json(holder.result);
  const Json interfaces = nested_list(result, {"interfaces"});
  std::size_t index = 0;
  while (index < interfaces.size() && (member_text(interfaces[index], "name") != holder.interface ||
                                       member_text(interfaces[index], "sandbox").empty())) {
    ++index;
  }
  if (index < interfaces.size()) {
    const std::string mac = member_text(interfaces[index], "mac");
    if (!mac.empty() && mac.size() <= kMaxHardwareAddress) out["hardwareAddress"] = mac;
  }
  Json ips = Json::array();
  for (const Json& ip : nested_list(result, {"ips"})) {
    const bool is_its = ip.is_object() && ip.value("interface", Json(index)) == Json(index);
    // For one that is not in its canonical form the API refuses the whole status.
    const auto address = netlink::Cidr::parse(member_text(ip, "address"));
    if (is_its && address && ips.size() < kMaxIps) ips.push_back(address->str());
  }
  if (!ips.empty()) out["ips"] = std::move(ips);
  return out;
}

Json ready_condition(bool is_ready, const char* reason, const std::string& message) {
  return Json::array({{{"type", "Ready"},
                       {"status", is_ready ? "True" : "False"},
                       {"reason", reason},
                       {"message", message}}});
}

std::string timestamp(std::int64_t when) {
  const std::time_t time = when;
  std::tm parts{};
  std::array<char, 32> out{};
  ::gmtime_r(&time, &parts);
  return {out.data(), std::strftime(out.data(), out.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

// The element as it is to be: with the times of conditions, and what is not ours to decide.
Json with_times(Json device, const Json* before, std::int64_t now) {
  for (Json& condition : device["conditions"]) {
    condition["lastTransitionTime"] = timestamp(now);
    if (before == nullptr) continue;
    for (const Json& earlier : nested_list(*before, {"conditions"})) {
      const std::string time = member_text(earlier, "lastTransitionTime");
      const bool is_same = member_text(earlier, "type") == member_text(condition, "type") &&
                           member_text(earlier, "status") == member_text(condition, "status");
      if (is_same && !time.empty()) condition["lastTransitionTime"] = time;
    }
  }
  return device;
}

}  // namespace

Json device_status(const Entry& entry, const StatusOwner& of) {
  Json out = {{"driver", of.driver}, {"pool", of.pool}, {"device", entry.claim->device}};
  if (!entry.claim->share.empty()) out["shareID"] = entry.claim->share;
  const bool is_its = entry.holder && entry.holder->pod && entry.is_of(*entry.holder->pod);
  if (!is_its) {
    out["conditions"] =
        ready_condition(false, "Prepared", "prepared for the pod, not attached by CNI ADD");
  } else if (!entry.is_attached()) {
    out["conditions"] = ready_condition(false, "Attaching", "CNI ADD has not returned");
  } else {
    out["conditions"] =
        ready_condition(true, "Attached", cat("attached as interface ", entry.holder->interface));
    out["networkData"] = network_of(*entry.holder);
  }
  return out;
}

Json devices_of(const Json& claim) { return nested_list(claim, {"status", "devices"}); }

Json with_devices(const Json& claim, const std::vector<Json>& ours, const StatusOwner& of,
                  std::int64_t now) {
  const Json before = devices_of(claim);
  const Json allocated = nested_list(claim, {"status", "allocation", "devices", "results"});
  const auto is_wanted = [&](const Json& device) { return element(allocated, device) != nullptr; };
  Json out = Json::array();
  for (const Json& one : before) {  // in the order that they have
    if (member_text(one, "driver") != of.driver || member_text(one, "pool") != of.pool) {
      out.push_back(one);
      continue;
    }
    const auto mine = std::ranges::find_if(
        ours, [&](const Json& device) { return device_key(device) == device_key(one); });
    if (mine != ours.end() && is_wanted(*mine)) out.push_back(with_times(*mine, &one, now));
  }
  for (const Json& one : ours) {
    if (is_wanted(one) && element(out, one) == nullptr)
      out.push_back(with_times(one, nullptr, now));
  }
  return out;
}

}  // namespace devices::dra

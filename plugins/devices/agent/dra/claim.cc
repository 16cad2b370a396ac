#include "plugins/devices/agent/dra/claim.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/config/conf.h"
#include "plugins/devices/agent/pools/quantity.h"

namespace devices::dra {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;
using cni::Reader;

constexpr std::size_t kMaxText = 512;  // names of Kubernetes have at most 253 bytes

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::kInvalidConfig, why); }

std::string text_at(const Reader& object, const char* key) {
  const Reader place = object[key];
  std::string out = place.present() ? place.as_string() : std::string();
  if (out.empty() || out.size() > kMaxText) {
    refuse(cat(place.present() ? place.path() : cat(object.path(), ".", key), ": expected 1 to ",
               kMaxText, " bytes"));
  }
  return out;
}

std::vector<Reader> elements_of(const Reader& place, std::size_t most) {
  auto out = place.elements();
  if (out.size() > most) refuse(cat(place.path(), ": more than ", most, " elements"));
  return out;
}

// Whose interfaces it becomes. PodResources and CNI know pods alone.
Pod pod_in(const Reader& status, const std::string& space) {
  const auto users = elements_of(status["reservedFor"], 256);
  if (users.empty()) refuse("no pod has reserved it (status.reservedFor is empty)");
  for (const Reader& one : users) {
    std::string group;
    one.into("apiGroup", group);
    if (!group.empty() || text_at(one, "resource") != "pods") {
      refuse(cat("it is reserved for ", text_at(one, "resource"), " '", text_at(one, "name"),
                 "': this driver attaches devices to pods alone"));
    }
  }
  if (users.size() > 1) {
    refuse(cat(users.size(), " pods have reserved it: a device is moved into one pod. Give each ",
               "pod a claim of its own, by resourceClaimTemplateName"));
  }
  return {space, text_at(users[0], "name"), text_at(users[0], "uid")};
}

std::optional<std::int64_t> consumed(const Reader& result, const Asked& asked, const char* what) {
  const Reader all = result["consumedCapacity"];
  if (!all.present()) return std::nullopt;
  const std::string qualified = cat(asked.driver, "/", what);
  for (const char* const key : {what, qualified.c_str()}) {
    const Reader place = all[key];
    if (!place.present()) continue;
    const bool is_number = place.json().is_number();
    const auto value = quantity_in(is_number ? place.json().dump() : place.as_string());
    if (!value) refuse(cat(place.path(), ": expected a whole quantity"));
    return value;
  }
  return std::nullopt;
}

Result result_in(const Reader& place, const Asked& asked) {
  Result out{.request = text_at(place, "request"), .device = text_at(place, "device")};
  const std::string pool = text_at(place, "pool");
  if (pool != asked.pool) {
    refuse(cat(place.path(), ": device '", out.device, "' is of pool '", pool,
               "', this node's is '", asked.pool, "' (dra.node of the agent's config)"));
  }
  bool is_admin = false;
  place.into("adminAccess", is_admin);
  if (is_admin) {
    refuse(cat("request '", out.request, "' asks for adminAccess to '", out.device,
               "': a network device cannot be in two pods"));
  }
  if (place["shareID"].present()) out.share = text_at(place, "shareID");
  out.bandwidth = consumed(place, asked, "bandwidth");
  const auto slots = consumed(place, asked, "slots");
  if (slots.value_or(1) != 1) {
    refuse(cat("request '", out.request, "' consumes ", *slots, " slots of '", out.device,
               "': a request gets one interface. Use its count"));
  }
  return out;
}

Config config_in(const Reader& place, const Reader& opaque) {
  Config out;
  std::string source;
  place.into("source", source);
  out.is_from_class = source == "FromClass";
  for (const Reader& one : elements_of(place["requests"], kMaxRequests)) {
    out.requests.push_back(one.as_string());
  }
  const Reader parameters = opaque["parameters"];
  if (!parameters.present()) refuse(cat(opaque.path(), ".parameters: expected an object"));
  out.at = parameters.path();
  out.parameters = parameters.json();
  if (out.parameters.dump(-1, ' ', false, Json::error_handler_t::replace).size() > kMaxParameters) {
    refuse(cat(out.at, ": more than ", kMaxParameters, " bytes"));
  }
  return out;
}

std::vector<Config> configs_in(const Reader& list, const std::string& driver) {
  std::vector<Config> out;
  for (const Reader& one : elements_of(list, kMaxConfigs)) {
    const Reader opaque = one["opaque"];
    if (!opaque.present()) refuse(cat(one.path(), ": a kind of configuration that is not known"));
    if (text_at(opaque, "driver") == driver) out.push_back(config_in(one, opaque));
  }
  std::ranges::stable_sort(
      out, [](const Config& a, const Config& b) { return a.is_from_class && !b.is_from_class; });
  return out;
}

}  // namespace

bool Config::is_for(const std::string& request) const {
  const std::string main = request.substr(0, request.find('/'));
  return requests.empty() || std::ranges::any_of(requests, [&](const std::string& one) {
           return one == request || one == main;
         });
}

Allocation allocation_in(const Json& object, const Asked& asked) {
  const Reader root(object);
  const Reader metadata = root["metadata"], status = root["status"];
  if (!metadata.present()) refuse("the API server's answer has no metadata");
  const std::string uid = text_at(metadata, "uid");
  if (uid != asked.uid) {
    refuse(cat("the API server has another claim of that name, with UID ", uid, " and not ",
               asked.uid));
  }
  const Reader allocation = status.present() ? status["allocation"] : status;
  if (!allocation.present()) refuse("it is not allocated (status.allocation is absent)");
  Allocation out{.uid = asked.uid,
                 .space = asked.space,
                 .name = asked.name,
                 .pod = pod_in(status, asked.space),
                 .results = {},
                 .configs = {}};
  const Reader devices = allocation["devices"];
  if (devices.present()) {
    for (const Reader& one : elements_of(devices["results"], kMaxResults)) {
      if (text_at(one, "driver") == asked.driver) out.results.push_back(result_in(one, asked));
    }
    out.configs = configs_in(devices["config"], asked.driver);
  }
  if (out.results.empty()) refuse(cat("no device of driver ", asked.driver, " is allocated to it"));
  return out;
}

}  // namespace devices::dra

#include "plugins/flannel/delegate_config.h"

#include <nlohmann/json.hpp>

#include "libcni/config/json.h"
#include "libcni/config/names.h"
#include "libcni/plugin/repair.h"
#include "plugins/flannel/go_json.h"

namespace flannel {

namespace {

using cni::cat;
using cni::Cidr;
using cni::Code;
using cni::Error;
using cni::Reader;
using nlohmann::json;
using nlohmann::ordered_json;

// Keys in `delegate` and `ipam` are matched exactly, as in the reference: "NAME" is another key,
// and a null is a value.
json base_of(const cni::JsonValue& given) { return given->is_object() ? *given : json::object(); }

void refuse_wrong(const json& delegate) {
  if (const auto type = delegate.find("type"); type != delegate.end() && !type->is_string()) {
    throw Error(Code::kInvalidConfig,
                "'delegate' dictionary, if present, must have (string) 'type' field",
                cat("delegate.type: ", cni::shortened(*type)));
  }
  for (const char* const key : {"name", "ipam"}) {
    const auto found = delegate.find(key);
    if (found == delegate.end()) continue;
    throw Error(
        Code::kInvalidConfig,
        cat("'delegate' dictionary must not have '", key, "' field, it'll be set by flannel"),
        cat("delegate.", key, ": ", cni::shortened(*found),
            key == std::string_view("ipam") ? "; `ipam` stands beside `delegate`" : ""));
  }
}

// Its own would overwrite the state file.
void refuse_itself(const std::string& type) {
  if (!cni::stands_for(type, "flannel")) return;
  throw Error(Code::kInvalidConfig,
              cat("delegate.type: expected the plugin that makes the interface: \"", type, "\""));
}

std::vector<cni::Route> routes_in(const json& ipam) try {
  const auto given = ipam.find("routes");
  if (given == ipam.end()) return {};
  if (given->is_null()) return {};
  return cni::routes_from(Reader(*given, Code::kInvalidConfig, "ipam.routes"),
                          cni::GatewayFamily::kAny);
} catch (const Error& e) {
  throw Error(e.code(),
              cat("failed to assemble Delegate IPAM: failed to read IPAM routes: failed to parse "
                  "ipam.routes: ",
                  e.what()),
              e.details());
}

// In the order of the members of Go's type, not of the alphabet.
ordered_json json_of(const cni::Route& route) {
  ordered_json out{{"dst", route.dst.str()}};
  if (route.gateway) out.emplace("gw", route.gateway->str());
  if (route.mtu != 0) out.emplace("mtu", route.mtu);
  if (route.advmss != 0) out.emplace("advmss", route.advmss);
  if (route.priority != 0) out.emplace("priority", route.priority);
  if (route.table) out.emplace("table", *route.table);
  if (route.scope) out.emplace("scope", *route.scope);
  return out;
}

ordered_json routes_of(const json& ipam, const cni::SubnetEnv& env) {
  auto out = ordered_json::array();
  for (const cni::Route& route : routes_in(ipam)) out.push_back(json_of(route));
  for (const auto* networks : {&env.networks, &env.ipv6_networks}) {
    for (const Cidr& network : *networks) out.push_back({{"dst", network.str()}});
  }
  return out;
}

// What only the call knows.
void add_call(json& config, const cni::Request& request, const Conf& conf) {
  config["name"] = request.network;
  std::string version;
  request.reader().into("cniVersion", version);
  if (!version.empty()) config["cniVersion"] = version;
  if (conf.runtime_config->is_object()) config["runtimeConfig"] = *conf.runtime_config;
}

}  // namespace

std::string delegate_config(const cni::Request& request, const Conf& conf,
                            const cni::SubnetEnv& env) {
  const json delegate = base_of(conf.delegate), ipam = base_of(conf.ipam);
  refuse_wrong(delegate);
  json config = *env.delegate_config(delegate, ipam);
  refuse_itself(config.at("type").get<std::string>());
  add_call(config, request, conf);
  config.at("ipam").emplace("routes", nullptr);  // its place
  ordered_json out = config;                     // in the order of the alphabet
  out.at("ipam").at("routes") = routes_of(ipam, env);
  return go_json(out);
}

std::string with_call(const std::string& config, const cni::Request& request) {
  json out = cni::parse_json(config, "the delegate's config");
  const json& ours = request.conf;
  for (const char* const key :
       {"cniVersion", "prevResult", "cni.dev/valid-attachments", "cni.dev/attachments",
        cni::Repair::kLookKey, cni::Repair::kFormKey}) {
    if (const auto found = ours.find(key); found != ours.end()) out[key] = *found;
  }
  return out.dump();
}

std::string type_in(const std::string& config) {
  return Reader(cni::parse_json(config, "the delegate's config"))["type"].as_string();
}

}  // namespace flannel

#include "plugins/devices/attach.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/config/args.h"
#include "libcni/config/json.h"
#include "libcni/plugin/delegate.h"
#include "plugins/names/networks.h"

namespace devices {

namespace {

using cni::cat;
using cni::Code;
using cni::Command;
using cni::Error;
using nlohmann::json;

constexpr const char* kOwnType = "devices";

// What CNI_ARGS says beside the pod (IP, MAC, GATEWAY) is meant for the pod's first interface.
std::string args_of_pod(std::string_view args) {
  std::string out = "IgnoreUnknown=1";
  for (const std::string_view part : cni::parts_of_args(args)) {
    if (part.starts_with("K8S_")) out += cat(";", part);
  }
  return out;
}

// Older formats of results have no interfaces, on which the delegates after the first one depend.
cni::Version version_for(const cni::Request& chain) {
  return std::max(chain.version, cni::Version::k0_4_0);
}

json configs_in(const std::string& plugins) {
  json out = cni::try_parse_json(plugins);
  const auto fits = [](const json& one) {
    const auto type = one.is_object() ? one.find("type") : one.end();
    return one.is_object() && type != one.end() && type->is_string() && *type != kOwnType;
  };
  if (out.is_array() && !out.empty() && std::ranges::all_of(out, fits)) return out;
  throw Error(Code::kInternal, "the ledger has no list of plugins that attach the device", plugins);
}

// The path of the namespace may be another container's by now.
std::string netns_of(const cni::Request& chain, const Holder& holder, Command command) {
  if (command != Command::kDel || plugins::lives(holder.owner)) return holder.owner.netns;
  return chain.command == Command::kDel && chain.netns != holder.owner.netns ? chain.netns : "";
}

cni::Env environment_of(const cni::Request& chain, const Holder& holder, Command command) {
  cni::Env env = chain.env;
  env["CNI_CONTAINERID"] = holder.owner.container_id;
  env["CNI_IFNAME"] = holder.interface;
  env["CNI_NETNS"] = netns_of(chain, holder, command);
  env["CNI_ARGS"] = args_of_pod(chain.args);
  return env;
}

json with_network(json config, const cni::Request& chain, const std::string& resource) {
  config["cniVersion"] = std::string(cni::str(version_for(chain)));
  config["name"] = names::devices_network(resource);
  return config;
}

cni::Request request_of(cni::Env env, Command command, const json& config) {
  cni::Request base;
  base.env = std::move(env);
  return cni::request_with(base, command, config.dump());
}

}  // namespace

struct Delegates::Call {
  cni::Delegate delegate;
  cni::Request request;
};

Delegates::Delegates(const cni::Request& chain, const Entry& entry)
    : chain_(chain), entry_(entry), configs_(configs_in(entry.holder->plugins)) {}

std::size_t Delegates::size() const { return configs_->size(); }

Delegates::Call Delegates::call(std::size_t index, Command command,
                                const std::string& prev_result) const {
  json config = with_network((*configs_)[index], chain_, entry_.holder->resource);
  if (!prev_result.empty()) {
    const cni::Result result =
        cni::result_from(cni::parse_json(prev_result, "the device's result"));
    config["prevResult"] = cni::to_json(result, version_for(chain_));
  }
  const std::string type = config["type"].get<std::string>();
  return {.delegate = cni::Delegate::find(chain_, type, "plugins[].type"),
          .request = request_of(environment_of(chain_, *entry_.holder, command), command, config)};
}

cni::Result Delegates::add() const {
  cni::Result result;
  std::string printed;
  for (std::size_t i = 0; i < size(); ++i) {
    const Call one = call(i, Command::kAdd, printed);
    result = cni::delegate_add(one.delegate, one.request);
    printed = cni::to_json(result, cni::kNewest).dump();
  }
  return result;
}

// It stops at the first that fails, as a runtime does.
void Delegates::del() const {
  for (std::size_t i = size(); i-- > 0;) {
    const Call one = call(i, Command::kDel, entry_.holder->result);
    cni::delegate_forward(one.delegate, one.request, Command::kDel);
  }
}

void Delegates::check() const {
  for (std::size_t i = 0; i < size(); ++i) {
    const Call one = call(i, Command::kCheck, entry_.holder->result);
    cni::delegate_forward(one.delegate, one.request, Command::kCheck);
  }
}

void Delegates::repair(cni::Repair& repair) const {
  for (std::size_t i = 0; i < size(); ++i) {
    const Call one = call(i, Command::kRepair, entry_.holder->result);
    if (cni::has_verb(one.delegate, one.request, Command::kRepair)) {
      cni::delegate_repair(one.delegate, one.request, Command::kRepair, repair);
      continue;
    }
    const auto check = [&] {
      const Call again = call(i, Command::kCheck, entry_.holder->result);
      cni::delegate_forward(again.delegate, again.request, Command::kCheck);
    };
    repair.part(check, check);
  }
}

namespace {

json valid_attachments(const std::vector<Entry>& entries, const std::string& resource) {
  json out = json::array();
  for (const Entry& one : entries) {
    if (!one.holder || one.holder->resource != resource) continue;
    out.push_back(
        {{"containerID", one.holder->owner.container_id}, {"ifname", one.holder->interface}});
  }
  return out;
}

void collect_by(const cni::Request& chain, const json& config, cni::Collect& collect) try {
  const std::string type = config["type"].get<std::string>();
  const auto delegate = cni::Delegate::find(chain, type, "plugins[].type");
  const auto request = request_of(chain.env, Command::kGc, config);
  cni::delegate_collect(delegate, request, collect);
} catch (const Error& e) {
  throw Error(e.code(), cat("GC of '", config["name"].get<std::string>(), "': ", e.what()),
              e.details());
}

// What two devices of a resource have in common for GC.
std::string key_of(const json& config) {
  return cat(config["name"].dump(), config["type"].dump(), config.value("ipam", json()).dump());
}

}  // namespace

void collect_delegates(const cni::Request& chain, const std::vector<Entry>& entries,
                       cni::Collect& collect) {
  std::set<std::string> seen;
  cni::BestEffort each;
  for (const Entry& entry : entries) {
    const std::string& resource = entry.holder ? entry.holder->resource : entry.resource;
    const json valid = valid_attachments(entries, resource);
    const std::string& list = entry.holder ? entry.holder->plugins : entry.plugins;
    if (list.empty()) continue;
    each(cat("collect what '", entry.id, "' left"), [&] {
      for (const json& one : configs_in(list)) {
        json config = with_network(one, chain, resource);
        if (!seen.insert(key_of(config)).second) continue;
        config["cni.dev/valid-attachments"] = config["cni.dev/attachments"] = valid;
        if (collect.only_looks()) config[cni::Repair::kLookKey] = true;
        collect_by(chain, config, collect);
      }
    });
  }
  each.finish();
}

void append(cni::Result& result, const cni::Result& device) {
  const std::size_t before = result.interfaces.size();
  result.interfaces.insert(result.interfaces.end(), device.interfaces.begin(),
                           device.interfaces.end());
  for (cni::Address address : device.ips) {
    if (address.interface) *address.interface += before;
    result.ips.push_back(address);
  }
  result.routes.insert(result.routes.end(), device.routes.begin(), device.routes.end());
}

}  // namespace devices

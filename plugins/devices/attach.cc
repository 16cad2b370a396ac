#include "plugins/devices/attach.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/config/args.h"
#include "libcni/config/json.h"
#include "libcni/plugin/delegate.h"
#include "netlink/route/socket.h"
#include "plugins/devices/protocol/link_id.h"
#include "plugins/names/networks.h"

namespace devices {

namespace {

using cni::cat;
using cni::Code;
using cni::Command;
using cni::Error;
using nlohmann::json;

constexpr const char* kOwnType = "devices";

// CNI_ARGS beside the pod (IP, MAC, GATEWAY) are meant for the pod's first interface.
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
  env["CNI_CONTAINERID"] = holder.owner.key.container_id;
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

json valid_attachments(const std::vector<Entry>& entries, const std::string& resource) {
  json out = json::array();
  for (const Entry& one : entries) {
    if (!one.holder || one.holder->resource != resource) continue;
    out.push_back(
        {{"containerID", one.holder->owner.key.container_id}, {"ifname", one.holder->interface}});
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

// The same for two devices of a resource that GC need not tell apart.
std::string key_of(const json& config) {
  return cat(config["name"].dump(), config["type"].dump(), config.value("ipam", json()).dump());
}

// By its name another link may have been meant: somebody may have renamed them since patchbay-agent
// looked. One that does not exist is an error of the delegate.
void require_link(const std::string& id, const json& config) {
  const auto name = config.find("device");
  if (!is_mac_id(id) || name == config.end() || !name->is_string()) return;
  const auto link = netlink::RouteSocket().find(name->get<std::string>());
  if (!link) return;
  const netlink::Mac mac = link->permanent_mac.value_or(link->mac);
  if (link_id(mac) == id) return;
  throw Error(
      Code::kTryAgainLater,
      cat("link '", link->name, "' is another one: its permanent MAC address is ", mac.str()),
      "patchbay-agent looks for the link of the device");
}

// The namespace itself is not locked: every user can open it, and so lock it.
netlink::Fd lock_pod(const Ledger& ledger, const netlink::NetNs& pod, const std::string& path) try {
  return ledger.lock_pod(pod.id().str());
} catch (const Error& e) {
  if (e.code() != Code::kTryAgainLater) throw;
  throw Error(e.code(), "another ADD attaches devices to the pod", path);
}

// Whether the holder is the same interface of an earlier sandbox of the pod. A kubelet has one
// sandbox of a pod and stops the others first (computePodActions in kuberuntime_manager.go), but a
// runtime that is killed during ADD forgets the sandbox and leaves its namespace. That ADD may
// still run, and takes nothing from a later one.
bool is_earlier_sandbox(const Holder& holder, const Holder& mine) {
  const StateOwner &other = holder.owner, &own = mine.owner;
  return holder.pod && holder.pod == mine.pod && holder.started < mine.started &&
         other.key.container_id != own.key.container_id && other.key.network == own.key.network &&
         other.key.ifname == own.key.ifname;
}

// Whether the holder's attachment does not exist any more, or was never complete.
bool is_stale(const Holder& holder, const Holder& mine) {
  if (is_earlier_sandbox(holder, mine) || !plugins::lives(holder.owner)) return true;
  return holder.owner.key == mine.owner.key && holder.result.empty();
}

[[noreturn]] void refuse(const Entry& entry, const StateOwner& owner) {
  const StateOwner& other = entry.holder->owner;
  if (other.key == owner.key) {
    throw Error(Code::kInternal,
                cat("device '", entry.id,
                    "' of an earlier ADD of this attachment "
                    "has not been detached"),
                "call DEL");
  }
  throw Error(Code::kTryAgainLater,
              cat("device '", entry.id, "' is still in container '", other.key.container_id, "'"),
              cat("its interface is '", entry.holder->interface, "' in ", other.netns));
}

// \throws cni::Error where the kubelet has given it to another pod since.
Entry read_again(const Ledger& ledger, const Entry& entry) {
  auto now = ledger.read(entry.id);
  if (now && now->is_of(*entry.pod) && now->resource == entry.resource) return *std::move(now);
  throw Error(Code::kTryAgainLater, cat("device '", entry.id, "' is another pod's by now"));
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
  require_link(entry_.id, (*configs_)[0]);
  for (std::size_t i = 0; i < size(); ++i) {
    const Call one = call(i, Command::kAdd, printed);
    result = cni::delegate_add(one.delegate, one.request);
    printed = cni::to_json(result, cni::kNewest).dump();
  }
  return result;
}

void Delegates::forward(std::size_t index, Command command) const {
  const Call one = call(index, command, entry_.holder->result);
  cni::delegate_forward(one.delegate, one.request, command);
}

// It stops at the first that fails, as a runtime does.
void Delegates::del() const {
  for (std::size_t i = size(); i-- > 0;) forward(i, Command::kDel);
}

void Delegates::check() const {
  for (std::size_t i = 0; i < size(); ++i) forward(i, Command::kCheck);
}

void Delegates::repair(cni::Repair& repair) const {
  for (std::size_t i = 0; i < size(); ++i) {
    const Call one = call(i, Command::kRepair, entry_.holder->result);
    if (cni::has_verb(one.delegate, one.request, Command::kRepair)) {
      cni::delegate_repair(one.delegate, one.request, Command::kRepair, repair);
      continue;
    }
    const auto check = [&] { forward(i, Command::kCheck); };
    repair.part(check, check);
  }
}

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

Sandbox::Sandbox(const cni::Request& request, const Ledger& ledger, const cni::Result& chain,
                 std::int64_t started)
    : request_(request),
      ledger_(ledger),
      pod_(cni::open_netns(request)),
      links_(pod_),
      owner_(plugins::state_owner(request, links_)),
      started_(started),
      lock_(lock_pod(ledger, pod_, request.netns)) {
  for (const cni::Interface& before : chain.interfaces) names_.insert(before.name);
  if (!ledger.has_mark(owner_)) return;
  for (const Entry& one : ledger.held_by(owner_)) {
    if (!one.is_attached()) let_go(request, ledger, one);
  }
}

// "net1", "net2", …; the name that the pool says, and for its next device the same with a number.
std::string Sandbox::name_for(const Entry& entry, const std::string& prefix) {
  constexpr std::size_t kMax = 13;  // and two digits
  const std::string base = entry.ifname.empty() ? prefix : entry.ifname.substr(0, kMax);
  const auto is_taken = [&](const std::string& name) {
    return names_.contains(name) || links_.find(name);
  };
  std::string name = entry.ifname;
  for (unsigned n = entry.ifname.empty() ? 1 : 2; name.empty() || is_taken(name); ++n) {
    name = cat(base, n);
  }
  names_.insert(name);
  return name;
}

Entry Sandbox::hold(const Entry& entry, const std::string& prefix) {
  constexpr int kTries = 5;
  const cni::Phase phase("hold");
  const Holder holder{
      .owner = owner_, .interface = name_for(entry, prefix), .pod = entry.pod, .started = started_};
  for (int i = 0; i < kTries; ++i) {
    if (auto held = try_hold(entry, holder)) return *std::move(held);
  }
  throw Error(Code::kTryAgainLater, cat("device '", entry.id, "': its holder keeps changing"));
}

// Empty: there was one, which is detached now; the caller looks again.
std::optional<Entry> Sandbox::try_hold(const Entry& entry, const Holder& holder) const {
  Entry now;
  {
    const auto lock = ledger_.lock();
    now = read_again(ledger_, entry);
    if (!now.holder) {
      if (now.pod != holder.pod) {  // the entry has no UID
        now.pod = holder.pod;
        ledger_.put_unsynced(now);
      }
      now.holder = holder;
      now.holder->resource = now.resource;
      now.holder->plugins = now.plugins;
      now.holder->promised = now.promised;
      ledger_.put_mark(holder.owner, now.id);
      ledger_.put_holder(now.id, *now.holder);
      return now;
    }
  }
  if (!is_stale(*now.holder, holder)) refuse(now, holder.owner);
  cni::during(cat("detach device '", now.id, "' from ", now.holder->owner.key.as_owner()),
              [&] { let_go(request_, ledger_, now); });
  return std::nullopt;
}

cni::Result Sandbox::attach(const Entry& held) const {
  const cni::Phase phase("device");
  const cni::Result result =
      cni::during(cat("attach device '", held.id, "' as '", held.holder->interface, "'"),
                  [&] { return Delegates(request_, held).add(); });
  const cni::Phase finish("finish");
  const auto lock = ledger_.lock();
  const auto now = ledger_.read(held.id);
  if (!now || now->holder != held.holder) {
    throw Error(Code::kTryAgainLater, cat("device '", held.id, "' was detached during ADD"));
  }
  ledger_.add_result(held.id, cni::to_json(result, cni::kNewest).dump());
  return result;
}

void let_go(const cni::Request& request, const Ledger& ledger, const Entry& held) {
  Delegates(request, held).del();
  const auto lock = ledger.lock();
  const auto now = ledger.look(held.id);
  if (now && now->holder && now->holder->owner == held.holder->owner) ledger.remove_holder(held.id);
  ledger.remove_idle_mark(held.holder->owner);
}

}  // namespace devices

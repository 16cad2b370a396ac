#include "libcni/common/lock.h"
#include "libcni/common/undo.h"
#include "libcni/plugin/delegate.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/suite.h"
#include "plugins/flannel/conf.h"
#include "plugins/flannel/delegate_config.h"
#include "plugins/flannel/state.h"
#include "plugins/names/state.h"

namespace flannel {

namespace {

using cni::cat;
using cni::Code;
using cni::Command;
using cni::Error;

// Less than a runtime gives this plugin: the delegate has a delegate of its own, with less.
constexpr std::chrono::seconds kLimit{200};

/// The delegate and what it gets.
struct Call {
  cni::Delegate delegate;
  cni::Request request;
};

Call call_with(const cni::Request& request, Command command, const std::string& config) {
  Call out{.delegate = cni::Delegate::find(request, type_in(config), "delegate.type"),
           .request = cni::request_with(request, command, config)};
  out.delegate.limit = kLimit;
  return out;
}

// The delegate gets ADD's config, and what the runtime knows of ADD: an IPAM plugin that is not
// there any more may have a lease.
void detach(const cni::Request& request, const std::string& config) {
  const bool knows = request.reader()["prevResult"].present();
  const Call call = call_with(request, Command::kDel, knows ? with_call(config, request) : config);
  cni::delegate_forward(call.delegate, call.request, Command::kDel);
}

/// Undo of ADD.
struct Detach {
  Call call;
  std::string data_dir;
  void operator()() const {
    cni::delegate_forward(call.delegate, call.request, Command::kDel);
    const StateFiles files = StateFiles::create(data_dir);
    const auto state = files.of(call.request);
    files.remove(call.request, state ? state->name : "");
  }
  std::string describe() const { return cat("detach by plugin '", call.delegate.type, "'"); }
};

// The bridge knows its addresses, but not who gave the other one.
[[noreturn]] void explain(const Error& e, const Conf& conf, const cni::SubnetEnv& env) {
  constexpr std::string_view kOther = "already has an IP address different from";
  if (std::string_view(e.what()).find(kOther) == std::string_view::npos) throw e;
  std::string subnets;
  for (const auto& subnet : {env.subnet, env.ipv6_subnet}) {
    if (subnet) subnets += cat(subnets.empty() ? "" : " and ", subnet->str());
  }
  throw Error(e.code(), e.what(),
              cat(e.details(), e.details().empty() ? "" : "; ", conf.subnet_file,
                  " says that the subnet of this node is ", subnets,
                  " now; \"forceAddress\": true in `delegate` lets the bridge follow it"));
}

// Of the container, whose state files may have one name. The lock is not in `dataDir`: where that
// is open to every user, every user could take it.
netlink::Fd lock_container(const cni::Request& request) {
  const auto lock = [&] {
    return cni::take_lock_of(request.container_id, cni::Dir::create(names::kFlannelLockDir));
  };
  return cni::noting_failure("flannel: going on without a lock of the container", lock,
                             cni::is_refusal);
}

void put_state(const cni::Request& request, const Conf& conf, const std::string& config) {
  const auto lock = lock_container(request);
  StateFiles::create(conf.data_dir).put(request, config);
}

// Writes down the delegate's config, for DEL, and then calls it. A failure of the delegate keeps
// the file: what it left is undone by DEL.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);
  const cni::SubnetEnv env = load_subnet_env(conf);
  const std::string config = delegate_config(request, conf, env);
  const Call call = cni::during("failed to delegate add",
                                [&] { return call_with(request, Command::kAdd, config); });
  put_state(request, conf, config);
  try {
    cni::Result result = cni::delegate_add(call.delegate, call.request);
    undo.add(Detach{call, conf.data_dir});
    return result;
  } catch (const Error& e) {
    explain(e, conf, env);
  }
}

// The subnets of prevResult, for IPAM plugins that take no config without them.
void take_subnets(const cni::Request& request, cni::SubnetEnv& env) try {
  const auto result = request.prev_result();
  if (!result) return;
  for (const cni::Address& address : result->ips) {
    auto& subnet = address.cidr.ip.is_v4() ? env.subnet : env.ipv6_subnet;
    if (!subnet) subnet = address.cidr;
  }
} catch (const Error& e) {
  cni::note(e.what());
}

/// The config that ADD would give the delegate.
struct Rebuilt {
  std::string config;
  bool is_complete;  ///< subnet.env has all
};

// Nothing for a config that ADD refuses, and which therefore called no delegate.
std::optional<Rebuilt> rebuild(const cni::Request& request) try {
  const Conf conf = Conf::parse(request);
  std::optional<cni::SubnetEnv> env;
  try {
    env = load_subnet_env(conf);
  } catch (const Error& e) {
    cni::note(cat(e.what(), " DEL goes on without it"));
  }
  const bool is_complete = env.has_value();
  if (!env) take_subnets(request, env.emplace());
  return Rebuilt{delegate_config(request, conf, *env), is_complete};
} catch (const Error& e) {
  cni::note(cat(e.what(), "; no delegate is called, as ADD has called none"));
  return std::nullopt;
}

// DEL without a state file is a repeated one, or the file was lost. is_torn: it is known that ADD
// wrote one.
void detach_without_state(const cni::Request& request, bool is_torn) {
  const auto known = rebuild(request);
  if (!known) return;
  bool is_there = false;
  try {
    cni::Delegate::find(request, type_in(known->config), "delegate.type");
    is_there = true;
    detach(request, known->config);
  } catch (const Error& e) {
    if (known->is_complete && (is_there || is_torn)) throw;
    cni::note(cat(e.what(), "; there is no state of ADD"));
  }
}

void del(const cni::Request& request) {
  const auto files = StateFiles::find(data_dir_of(request));
  const auto state = files ? files->of(request) : std::nullopt;
  if (state && !state->config.empty()) {
    detach(request, state->config);
  } else {
    detach_without_state(request, state.has_value());
  }
  if (files) files->remove(request, state ? state->name : "");
}

// \throws cni::Error where DEL would have to guess.
std::string require_state(const cni::Request& request, const std::string& data_dir) {
  const auto files = StateFiles::find(data_dir);
  const auto state = files ? files->of(request) : std::nullopt;
  if (state && !state->config.empty()) return state->config;
  throw Error(Code::kInternal, cat("the state file '", data_dir, "/", request.container_id, "' is ",
                                   state ? "torn" : "missing"));
}

void check_delegate(const cni::Request& request, const std::string& config) {
  const Call call = call_with(request, Command::kCheck, with_call(config, request));
  cni::delegate_forward(call.delegate, call.request, Command::kCheck);
}

void check(const cni::Request& request) {
  check_delegate(request, require_state(request, Conf::parse(request).data_dir));
}

void collect_delegate(const cni::Request& request, cni::Collect& collect) {
  const auto known = rebuild(request);
  if (!known) return;
  std::optional<Call> call;
  try {
    call = call_with(request, Command::kGc, with_call(known->config, request));
  } catch (const Error& e) {
    return cni::note(cat(e.what(), "; no delegate is called"));
  }
  cni::delegate_collect(call->delegate, call->request, collect);
}

// The files go last: with them DEL of a stale attachment is exact.
void gc(const cni::Request& request, cni::Collect& collect) {
  collect_delegate(request, collect);
  const auto files = StateFiles::find(data_dir_of(request));
  if (!files) return;
  for (const State& state : files->all()) {
    const std::string what = cat("state file ", files->path_of(state.name));
    if (collect.takes(what, state.key, cni::life_by_age(state.modified))) {
      files->remove(state.name);
    }
  }
}

// \throws cni::Error(kPluginUnavailable) as long as flanneld has not written subnet.env, or the
// delegate is not there; else what the delegate says.
void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  const auto ready = [](auto&& part) {
    try {
      return part();
    } catch (const Error& e) {
      throw Error(Code::kPluginUnavailable, e.what(), e.details());
    }
  };
  const cni::SubnetEnv env = ready([&] { return load_subnet_env(conf); });
  const std::string config = with_call(delegate_config(request, conf, env), request);
  const Call call = ready([&] { return call_with(request, Command::kStatus, config); });
  cni::delegate_forward(call.delegate, call.request, Command::kStatus);
}

// The delegate's config is complete but for the subnet, which any may be.
void validate(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  const auto any = cni::SubnetEnv::parse(
      "FLANNEL_NETWORK=192.0.2.0/24\nFLANNEL_SUBNET=192.0.2.1/24\nFLANNEL_MTU=1450\n"
      "FLANNEL_IPMASQ=true\n",
      conf.subnet_file);
  const std::string config = delegate_config(request, conf, any);
  const std::string type = type_in(config);
  if (!cni::is_plugin_name(type)) cni::find_plugin(type, request.path, "delegate.type");
  const cni::Plugin* const plugin = cni::plugin_named(type);
  if (plugin == nullptr || plugin->verbs.validate == nullptr) return;
  cni::during("delegate",
              [&] { plugin->verbs.validate(cni::request_with(request, Command::kAdd, config)); });
}

// A delegate without the verb can only be asked whether all is well.
cni::Result repair_by_check(const cni::Request& request, const std::string& config,
                            cni::Repair& repair) {
  repair.part([&] { check_delegate(request, config); }, [&] { check_delegate(request, config); });
  return request.required_prev_result();
}

cni::Result repair(const cni::Request& request, cni::Repair& repair) {
  const Conf conf = Conf::parse(request);
  std::string config;
  repair.part([&] { config = require_state(request, conf.data_dir); },
              [&] {
                config = delegate_config(request, conf, load_subnet_env(conf));
                put_state(request, conf, config);
              });
  if (config.empty()) config = delegate_config(request, conf, load_subnet_env(conf));
  const Call call = call_with(request, Command::kRepair, with_call(config, request));
  if (!cni::has_verb(call.delegate, call.request, Command::kRepair)) {
    return repair_by_check(request, config, repair);
  }
  const auto result = cni::delegate_repair(call.delegate, call.request, Command::kRepair, repair);
  return result ? *result : request.required_prev_result();
}

// RECLAIM and MIGRATE of a delegate that has them.
void forward_to(const cni::Request& request, cni::Repair& repair) {
  const auto files = StateFiles::find(data_dir_of(request));
  const auto state = files ? files->of(request) : std::nullopt;
  std::string config = state ? state->config : "";
  if (config.empty()) {
    const auto known = rebuild(request);
    if (!known) return;
    config = known->config;
  }
  const Call call = call_with(request, request.command, with_call(config, request));
  if (!cni::has_verb(call.delegate, call.request, request.command)) return;
  cni::delegate_repair(call.delegate, call.request, request.command, repair);
}

}  // namespace

extern constinit const cni::Plugin kPlugin{
    .name = "flannel",
    .verbs = {add, del, check, gc, status, validate, repair, forward_to, forward_to},
    .manual = &kManual,
    .loading = "failed to load flannel netconf file: failed to load netconf"};

}  // namespace flannel

#include <optional>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/plugin/ipam.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "netlink/route/link_move.h"
#include "plugins/common/link/addresses.h"
#include "plugins/common/link/interface.h"
#include "plugins/common/link/ipam_keys.h"
#include "plugins/common/link/pod_link.h"
#include "plugins/host-device/conf.h"
#include "plugins/host-device/device.h"
#include "plugins/host-device/info_file.h"
#include "plugins/host-device/restore.h"
#include "plugins/host-device/state.h"

namespace host_device {

namespace {

using cni::cat;
using cni::Code;
using cni::Result;
using netlink::Capability;
using netlink::Link;
using netlink::RouteSocket;
using plugins::Namespaces;

// The device may be in a pod: then the error says in whose.
Link find_with_owner(RouteSocket& host, const Conf& conf, const Selection& selection,
                     const StateDir& states) try {
  return find_device(host, conf, selection);
} catch (const cni::Error& e) {
  for (const State& state : states.all()) {
    if (!is_selected(conf, selection, state.device)) continue;
    throw cni::Error(e.code(), e.what(), cat(state.owner.key.as_owner(), " has the device"));
  }
  throw;
}

// An ADD of the same attachment went before, without a DEL.
void require_no_device(const cni::Request& request, const StateDir& states) {
  const auto earlier = states.read(plugins::state_owner(request));
  if (!earlier || !earlier->device.is_hardware()) return;
  throw cni::Error(Code::kInternal,
                   cat("device '", earlier->device.name,
                       "' of an earlier ADD of this attachment has not returned"),
                   "call DEL");
}

// The index that the device gets in the pod: its own, or the next that no link there has.
int free_index(RouteSocket& pod, int index) {
  while (pod.find(index)) ++index;
  return index;
}

// The message is the reference plugin's.
[[noreturn]] void refuse_name(const cni::Request& request, const std::string& device) {
  throw cni::Error(Code::kInternal,
                   cat("failed to move link failed to move \"", request.ifname, "\" (host: \"",
                       device, "\") to container NS: file exists"),
                   "the pod has an interface with this name: delete it, or use another CNI_IFNAME");
}

// Moves the device into the pod, where it is down. What it was is on the disk before.
State take_device(Namespaces& sides, const Conf& conf, const Selection& selection,
                  cni::Undo& undo) {
  const cni::Phase phase("link");
  const cni::Request& request = sides.request;
  if (sides.pod.find(request.ifname)) refuse_name(request, conf.device);
  const StateDir states = StateDir::create();
  const auto lock = states.lock();
  reclaim(sides.host(), states);
  require_no_device(request, states);
  const Link link = find_with_owner(sides.host(), conf, selection, states);
  require_movable(sides.host(), conf, link);
  State state{.owner = plugins::state_owner(request, sides.pod),
              .pod_index = free_index(sides.pod, link.index),
              .device = device_of(sides.host(), link)};
  undo.add(GiveBack{request});
  states.put(state);
  const auto refusal = sides.host().attempt(netlink::move_link(
      link,
      {.to = sides.pod_ns, .name = request.ifname, .alias = link.name, .index = state.pod_index}));
  if (refusal) {
    throw cni::in_words(cat("failed to move link failed to move \"", link.name, "\" to tempNS"),
                        *refusal);
  }
  const Link inside = sides.pod.get(request.ifname);
  if (inside.index != state.pod_index) {  // kernels before 5.13
    state.pod_index = inside.index;
    states.put(state);
  }
  return state;
}

// The addresses from IPAM for the first interface, if the config has an IPAM plugin.
Result addresses_from_ipam(const cni::Request& request, const Conf& conf, cni::Undo& undo) {
  if (conf.ipam_type.empty()) return {};
  Result result =
      plugins::request_addresses(request, {conf.ipam_type, conf.ignore_default_route}, undo);
  result.dns = plugins::dns_of(request.reader(), conf, std::move(result.dns));
  return result;
}

Result add_dpdk(const cni::Request& request, const Conf& conf, const Selection& selection,
                cni::Undo& undo) {
  write_device_info(conf.device_info, selection.pci, undo);
  Result result = addresses_from_ipam(request, conf, undo);
  result.interfaces = {{.name = request.ifname, .sandbox = request.netns}};
  return result;
}

// Moves the device into the pod, and adds addresses if the config has an IPAM plugin.
Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);  // all of the input before any change
  conf.require_selector();
  if (!conf.ipam_type.empty()) cni::find_ipam(request, conf.ipam_type);
  Namespaces sides(request);
  const Selection selection = select(conf);
  if (selection.dpdk) return add_dpdk(request, conf, selection, undo);
  const State state = take_device(sides, conf, selection, undo);
  write_device_info(conf.device_info, state.device.pci, undo);
  const Link inside = sides.pod.get(request.ifname);
  Result result = addresses_from_ipam(request, conf, undo);
  result.interfaces = {plugins::describe(inside, request.netns)};
  if (conf.ipam_type.empty()) {
    sides.pod.send(netlink::set_link(inside, {.up = true}));
  } else {
    plugins::configure_interface(
        {sides, inside}, result,
        {.enable_dad = conf.enable_dad, .ignore_default_route = conf.ignore_default_route});
  }
  return result;
}

// Gives the device back to the node as it was, with or without namespace; twice.
void del(const cni::Request& request) {
  plugins::disconnect_and_release(request, [&](cni::BestEffort& each) {
    return each("return the device", [&] {
      if (!give_back(request)) give_back_hardware(request);
    });
  });
}

std::optional<State> state_of(const cni::Request& request) {
  const auto states = StateDir::find();
  return states ? states->read(plugins::state_owner(request)) : std::nullopt;
}

void check_identity(Namespaces& sides, const State& state) {
  const auto link = find_in_pod(sides.pod, state);
  if (link && link->name == sides.request.ifname) return;
  const std::string where =
      link ? cat("that is '", link->name, "' now") : std::string("that is not in the pod");
  const std::string flaw = cat("Interface ", sides.request.ifname, " is not the device '",
                               state.device.name, "' of the node: ", where);
  if (sides.pod.find(sides.request.ifname)) throw cni::Error(Code::kInternal, flaw);
  throw cni::Error(
      Code::kInternal,
      cat("Container Interface name in prevResult: ", sides.request.ifname, " not found"), flaw);
}

// \throws cni::Error naming the first difference to what ADD created.
void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  conf.require_selector();
  Namespaces sides(request);
  cni::ipam_forward(request, conf.ipam_type, cni::Command::kCheck);
  const Result result = request.required_prev_result();
  const auto state = state_of(request);
  if (!state && select(conf).dpdk) return;
  if (state) check_identity(sides, *state);
  const Link link = plugins::find_interface(sides, result, {});
  if (!link.up) throw cni::Error(Code::kInternal, cat("Interface ", link.name, " is down"));
  plugins::check_interface({sides, link}, result);
}

// The state file stays while the device cannot be reached.
void restore(RouteSocket& host, const StateDir& states, const State& state) {
  const auto lock = states.lock();
  const auto now = states.read(state.owner);
  if (!now || give_back(host, *now, now->owner.netns) == ReturnResult::kUnreachable) return;
  states.remove(state.owner);
}

// Gives the devices of attachments that are not in the list back to the node.
void gc(const cni::Request& request, cni::Collect& collect) {
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  RouteSocket host;
  const auto states = StateDir::find();
  plugins::disconnect_and_collect(request, collect, [&](cni::BestEffort& each) {
    bool are_back = true;
    for (const State& state : states ? states->all() : std::vector<State>()) {
      const auto& owner = state.owner;
      const std::string what = cat("device '", state.device.name, "'");
      if (!collect.takes(what, owner.key, life_of(owner))) continue;
      const bool done =
          each(cat("return '", state.device.name, "'"), [&] { restore(host, *states, state); });
      are_back = are_back && done;
    }
    return are_back;
  });
}

// A device that a pod has is not missing: the node is as it should be.
void require_device(const Conf& conf) try {
  const Selection selection = select(conf);
  if (selection.dpdk) return;
  const auto states = StateDir::find();
  for (const State& state : states ? states->all() : std::vector<State>()) {
    if (is_selected(conf, selection, state.device)) return;
  }
  RouteSocket host;
  find_device(host, conf, selection);
} catch (const cni::Error& e) {
  throw cni::Error(Code::kPluginUnavailable, e.what(), e.details());
}

// \throws cni::Error(kPluginUnavailable) where the device or a right is missing. A config without a
// selector gets it from the runtime with each pod.
void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  if (conf.selects()) require_device(conf);
  cni::ipam_forward(request, conf.ipam_type, cni::Command::kStatus);
}

void validate(const cni::Request& request) { Conf::parse(request); }

// Restores devices that are on the node without their pod, of any attachment.
void reclaim(const cni::Request& request, cni::Repair& repair) {
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  const auto states = StateDir::find();
  if (!states) return;
  const auto lock = states->lock();
  RouteSocket host;
  cni::BestEffort each;
  for (const State& state : stale(host, *states)) {
    const auto look = [&] {
      throw cni::Error(Code::kInternal,
                       cat("device '", state.device.name, "' of ", state.owner.key.as_owner(),
                           " is on the node and has not been restored"));
    };
    each(cat("restore '", state.device.name, "'"),
         [&] { repair.part(look, [&] { reclaim(host, *states, state); }); });
  }
  each.finish();
}

// A removed device of this pod cannot be restored: only those of earlier pods are.
Result repair(const cni::Request& request, cni::Repair& repair) {
  reclaim(request, repair);
  if (cni::ipam_repair(request, cni::ipam_type(request), repair)) check(request);
  return request.required_prev_result();
}

}  // namespace

extern constinit const cni::Plugin kPlugin{
    .name = "host-device",
    .verbs = {add, del, check, gc, status, validate, repair, reclaim},
    .manual = &kManual};

}  // namespace host_device

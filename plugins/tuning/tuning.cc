#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "libcni/plugin/repair.h"
#include "plugins/tuning/allowlist.h"
#include "plugins/tuning/settings.h"

namespace tuning {

namespace {

using cni::cat;
using cni::Code;
using netlink::Capability;

cni::Result require_prev_result(const cni::Request& request) {
  return request.required_prev_result(
      "Required prevResult missing",
      "must be called as a chained plugin, after the one that creates the interface");
}

// Puts the interface's new MAC address into the result.
cni::Result changed(cni::Result result, const std::string& ifname, const Conf& conf) {
  if (!conf.mac) return result;
  for (cni::Interface& one : result.interfaces) {
    if (one.name == ifname && !one.sandbox.empty()) one.mac = conf.mac->str();
  }
  return result;
}

// Changes sysctls and settings of the pod's interface. All of the input is checked before.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);
  require_allowed(conf.sysctls);
  cni::Result result = require_prev_result(request);
  TunedPod pod(request);
  set_sysctls(pod, conf, undo);
  set_link(pod, conf, result, undo);
  return changed(std::move(result), request.ifname, conf);
}

void del(const cni::Request& request) {
  if (const auto states = StateDir::find(data_dir_of(request))) restore(request, *states);
}

void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  require_prev_result(request);
  if (const auto states = StateDir::find(conf.data_dir)) {
    read_state(*states, plugins::state_owner(request));  // or DEL fails
  }
  TunedPod pod(request);
  check_sysctls(pod, conf);
  check_link(pod, conf);
}

// Restores interfaces of attachments that are not listed but whose namespace still exists.
void gc(const cni::Request& request, cni::Collect& collect) {
  const auto states = StateDir::find(data_dir_of(request));
  if (!states) return;
  cni::BestEffort each;
  for (const plugins::StateOwner& owner : taken_by(collect, *states)) {
    cni::Request of = request;
    of.container_id = owner.key.container_id;
    of.ifname = owner.key.ifname;
    of.netns = owner.netns;
    each(cat("restore the settings of '", of.container_id, "'"), [&] { restore(of, *states); });
  }
  each.finish();
}

void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  try {
    require_allowed(conf.sysctls);
  } catch (const cni::Error& e) {
    throw cni::Error(Code::kPluginUnavailable, e.what(), e.details());
  }
}

void validate(const cni::Request& request) {
  require_allowed(Conf::parse(request).sysctls);
  require_prev_result(request);
}

// Sets again what differs from the config.
cni::Result repair(const cni::Request& request, cni::Repair& repair) {
  const Conf conf = Conf::parse(request);
  require_allowed(conf.sysctls);
  cni::Result result = require_prev_result(request);
  TunedPod pod(request);
  cni::Undo undo;
  repair.part([&] { check_sysctls(pod, conf); }, [&] { set_sysctls(pod, conf, undo); });
  repair.part([&] { check_link(pod, conf); }, [&] { set_link(pod, conf, result, undo); });
  undo.commit();
  return changed(std::move(result), request.ifname, conf);
}

}  // namespace

extern constinit const cni::Plugin kPlugin{
    .name = "tuning", .verbs = {add, del, check, gc, status, validate, repair}, .manual = &kManual};

}  // namespace tuning

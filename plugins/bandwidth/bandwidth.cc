#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"
#include "plugins/bandwidth/conf.h"
#include "plugins/bandwidth/ifb.h"
#include "plugins/bandwidth/limits.h"
#include "plugins/common/link/owned_links.h"

namespace bandwidth {

namespace {

using netlink::Capability;

constexpr const char* kChained = "must be called as chained plugin";
constexpr const char* kIsChained = "must be called as a chained plugin";

// Returns the previous plugin's result, with the ifb device (egressMode "ifb") added.
// Existing limits are changed in place; connections continue.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);
  cni::Result result = plugins::require_prev_result(request, kChained);
  if (conf.asks_for_none) remove_limits(request, DelConf{});
  if (!conf.limits()) return result;
  Context context = context_for(request, conf, result);
  name_host_veth(context, result);
  undo.add(RemoveLimits{request});  // rolls back also half of them
  set_limits(context, result);
  return result;
}

void del(const cni::Request& request) { remove_limits(request, DelConf::parse(request)); }

void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  const cni::Result result = plugins::require_prev_result(request, kIsChained);
  if (!conf.limits()) return;
  Context context = context_for(request, conf, result);
  check_limits(context);
}

void gc(const cni::Request& request, cni::Collect& collect) {
  cni::require_capabilities(request, {Capability::kNetAdmin});
  plugins::ask_host_veths(collect);
  plugins::collect_links("ifb", collect);
}

void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  if (!conf.limits()) return;  // a pod without limits can be added on any node
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  try_limits(conf);
}

void validate(const cni::Request& request) {
  Conf::parse(request);
  plugins::require_prev_result(request, kChained);
}

// Sets the limits again if one differs from the config.
cni::Result repair(const cni::Request& request, cni::Repair& repair) {
  const Conf conf = Conf::parse(request);
  cni::Result result = plugins::require_prev_result(request, kIsChained);
  if (!conf.limits()) return result;
  Context context = context_for(request, conf, result);
  repair.part([&] { check_limits(context); }, [&] { set_limits(context, result); });
  return result;
}

// The reference plugin has limits on the node alone, in the same objects. Its ifb device has no
// alias. Its queues stay: the kernel would drop what is queued.
void migrate(const cni::Request& request, cni::Repair& repair) {
  Conf conf = Conf::parse(request);
  cni::Result result = plugins::require_prev_result(request, kIsChained);
  if (!conf.limits()) return;
  if (repair.to_reference()) {
    if (!conf.subnets.list.empty()) {
      throw cni::Error(
          cni::Code::kInvalidConfig,
          "shapedSubnets and unshapedSubnets have no form in the reference plugin: the "
          "limits stay as they are");
    }
    conf.egress_mode = EgressMode::kIfb;
  }
  Context context = context_for(request, conf, result);
  repair.part([&] { check_limits(context); }, [&] { set_limits(context, result); });
  const auto ifb = find_ifb(context.sides.host(), request);
  if (!ifb || !ifb->alias.empty() || repair.to_reference()) return;
  repair.change(cni::cat("link '", ifb->name, "' has no alias that names its owner"),
                [&] { ensure_ifb(context.sides.host(), request, context.outside->mtu); });
}

}  // namespace

extern constinit const cni::Plugin kPlugin{
    .name = "bandwidth",
    .verbs = {add, del, check, gc, status, validate, repair, nullptr, migrate},
    .manual = &kManual,
    .loading = "failed to parse network configuration"};

}  // namespace bandwidth

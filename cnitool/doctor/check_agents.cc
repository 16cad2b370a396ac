#include <algorithm>
#include <cerrno>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"
#include "cnitool/output.h"
#include "plugins/names/state.h"

// patchbay-agent, which offers devices to pods.
namespace tool::doctor {

namespace {

// Whether ADD of a pod fails because a device may be that pod's. A running agent says whose it is.
bool may_be_anyones(const DeviceAgent& one) {
  return !one.networks.empty() && (one.open != 0 || one.is_ledger_removed());
}

std::string failure_of(const DeviceAgent& one) {
  if (one.is_ledger_removed()) {
    return cat("the folder of patchbay-agent's ledger was removed: '", one.ledger, "'");
  }
  if (one.failure == ENOENT)
    return cat("patchbay-agent does not run: no socket '", one.socket, "'");
  if (one.failure == ECONNREFUSED) {
    return cat("patchbay-agent does not run: nothing listens on '", one.socket, "'");
  }
  return cat("patchbay-agent accepts no connection to '", one.socket,
             "': ", netlink::errno_text(one.failure));
}

std::string why_it_matters(const DeviceAgent& one) {
  if (may_be_anyones(one)) {
    return cat(one.open != 0
                   ? cat(counted(one.open, "device"), " in the ledger that no container has")
                   : "the ledger lacks what pods were promised",
               ": ADD of any pod fails with code 11, because it may need one");
  }
  if (one.is_required) return "a network requires a device for each pod: ADD fails";
  if (!one.has_run) return "it has never run on this node: the node offers no devices";
  return cat("no pod gets a device; those that pods have stay theirs: ",
             counted(one.devices, "device"), " in the ledger");
}

std::string remedy_for(const DeviceAgent& one) {
  if (one.has_unit && !one.has_config) {
    return cat("write ", names::kAgentConfig, ", then systemctl enable --now ", names::kAgentUnit);
  }
  const bool is_dead = one.failure == ENOENT || one.failure == ECONNREFUSED;
  if (one.has_unit) {
    return cat("systemctl ", is_dead ? "enable --now " : "restart ", names::kAgentUnit);
  }
  if (!one.has_run && !one.is_ledger_removed())
    return "kubectl apply -f conf-examples/kubernetes/patchbay-agent.yaml";
  return "kubectl -n kube-system rollout restart daemonset/patchbay-agent";
}

// Pods ask the kubelet for a device of this agent, and their network does not attach it.
void report_missing_plugin(const Node& node, const DeviceAgent& one, Findings& out) {
  const auto& lists = node.networks.lists;
  const bool is_offered = one.failure == 0 || !one.unclaimed.empty();
  if (!one.networks.empty() || lists.empty() || !is_offered) return;
  out.push_back({Level::kError,
                 "no network has the plugin devices, and patchbay-agent offers some",
                 "a pod that asks for a device starts without it",
                 cat("add {\"type\": \"devices\"} after the first plugin in '", lists.front().file,
                     "', as cnitool preset --devices writes it"),
                 {lists.front().name}});
}

// Without the API server nobody can say whose the promise is.
void report_late_promises(const Node& node, const DeviceAgent& one, Findings& out) {
  constexpr std::int64_t kLimit = 30;
  const auto is_late = [&](std::int64_t since) { return node.now - since >= kLimit; };
  const auto late = std::ranges::count_if(one.unclaimed, is_late);
  if (late == 0 || one.networks.empty()) return;
  out.push_back({Level::kWarning,
                 cat(counted(static_cast<std::size_t>(late), "device"),
                     " promised to a pod, and no pod has claimed it for ",
                     node.now - *std::ranges::min_element(one.unclaimed), " s"),
                 "a pod of which only init containers ask for a device starts without it, as one "
                 "whose network has no plugin devices; a pod that waits for a volume claims it yet",
                 "kubectl get pods -A -o wide, and have an app container of the pod ask for the "
                 "device; the agent frees it after 10 minutes",
                 one.networks});
}

}  // namespace

Findings check_agents(const Node& node) {
  Findings out;
  for (const DeviceAgent& one : node.device_agents) {
    report_missing_plugin(node, one, out);
    if (one.failure == 0 && !one.is_ledger_removed()) {
      report_late_promises(node, one, out);
      continue;
    }
    const bool fails = may_be_anyones(one) || (!one.networks.empty() && one.is_required);
    const Level other = one.has_run ? Level::kWarning : Level::kNote;
    out.push_back({fails ? Level::kError : other, failure_of(one), why_it_matters(one),
                   remedy_for(one), one.networks});
  }
  return out;
}

}  // namespace tool::doctor

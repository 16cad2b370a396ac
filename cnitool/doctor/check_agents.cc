#include <algorithm>
#include <cerrno>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"
#include "cnitool/output.h"
#include "plugins/names/state.h"

// patchbay-agent, which offers devices to pods.
namespace tool::doctor {

namespace {

// Whether pods may have been promised more than the ledger has. A running agent asks the kubelet.
bool may_lack_promises(const DeviceAgent& one) {
  return one.is_ledger_removed() || (one.has_run && !one.is_complete && one.failure != 0);
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

std::string why_it_matters(const Node& node, const DeviceAgent& one) {
  if (!one.networks.empty() && !one.unclaimed.empty()) {
    const auto first = *std::ranges::min_element(one.unclaimed);
    return cat(counted(one.unclaimed.size(), "device"),
               " promised to pods that are not known yet, ",
               std::max<std::int64_t>(node.now - first, 0),
               " s ago: ADD of any pod fails with code 11, because it may be one of these");
  }
  if (!one.networks.empty() && may_lack_promises(one)) {
    return "the ledger may lack devices that pods were promised: ADD of every pod fails with code "
           "11";
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

}  // namespace

Findings check_agents(const Node& node) {
  Findings out;
  for (const DeviceAgent& one : node.device_agents) {
    if (one.failure == 0 && !one.is_ledger_removed()) continue;
    const bool fails = !one.networks.empty() &&
                       (one.is_required || !one.unclaimed.empty() || may_lack_promises(one));
    const Level other = one.has_run ? Level::kWarning : Level::kNote;
    out.push_back({fails ? Level::kError : other, failure_of(one), why_it_matters(node, one),
                   remedy_for(one), one.networks});
  }
  return out;
}

}  // namespace tool::doctor

#include "cnitool/doctor/agents.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cnitool/doctor/checks.h"
#include "cnitool/json_at.h"
#include "cnitool/known_plugins.h"
#include "cnitool/output.h"
#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/daemon/unix_socket.h"
#include "netlink/netns.h"
#include "plugins/names/state.h"
#include "plugins/state/ledger.h"

// patchbay-agent, which offers devices to pods.
namespace tool::doctor {

namespace {

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool has_unit() {
  constexpr const char* kFolders[] = {"/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"};
  return std::ranges::any_of(kFolders, [](const char* folder) {
    return exists(cni::cat(folder, "/systemd/system/", names::kAgentUnit));
  });
}

// Whether a container has the device, and is the one whose pod it was promised to: its namespace
// may exist.
bool is_held(const devices::Entry& entry) {
  if (!entry.holder || !entry.is_readable() || entry.pod != entry.holder->pod) return false;
  const std::string& netns = entry.holder->owner.netns;
  try {
    return netlink::NetNs::find(netns) || netlink::NetNs::may_hide(netns);
  } catch (const netlink::Error&) {
    return false;
  }
}

void read_ledger(DeviceAgent& agent) {
  agent.has_run = cni::Dir::open(agent.ledger).has_value();
  for (const devices::Entry& entry : devices::Ledger::shown(agent.ledger)) {
    if (!entry.is_wanted()) continue;  // a holder without its promise
    ++agent.devices;
    if (!is_held(entry)) ++agent.open;
    if (entry.is_unclaimed()) agent.unclaimed.push_back(entry.promised);
  }
}

void connect(DeviceAgent& agent) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  if (cni::connect_to(agent.socket, end)) return;
  agent.failure = errno;
  const bool is_wanted = !agent.networks.empty() || agent.devices != 0;
  if (errno == EACCES && is_wanted)
    throw netlink::Error(cni::cat("connect to '", agent.socket, "'"), errno);
}

DeviceAgent& agent_at(std::vector<DeviceAgent>& all, const std::string& socket,
                      const std::string& ledger) {
  const auto found = std::ranges::find_if(
      all, [&](const DeviceAgent& one) { return one.socket == socket && one.ledger == ledger; });
  if (found != all.end()) return *found;
  return all.emplace_back(DeviceAgent{.socket = socket, .ledger = ledger});
}

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

bool DeviceAgent::is_ledger_removed() const { return !has_run && failure != ENOENT; }

std::vector<DeviceAgent> device_agents(const std::vector<cni::NetworkList>& networks) {
  std::vector<DeviceAgent> out;
  for (const cni::NetworkList& list : networks) {
    for (const cni::PluginConf& plugin : list.plugins) {
      if (!facts_of(plugin.type).has(cni::Fact::kDevices)) continue;
      DeviceAgent& agent =
          agent_at(out, text_at(*plugin.conf, "agentSocket", names::kDevicesSocket),
                   text_at(*plugin.conf, "ledgerDir", names::kDevicesLedgerDir));
      agent.networks.push_back(list.name);
      agent.is_required = agent.is_required || is_true(*plugin.conf, "required");
    }
  }
  agent_at(out, names::kDevicesSocket, names::kDevicesLedgerDir);
  for (DeviceAgent& one : out) {
    read_ledger(one);
    connect(one);
  }
  std::erase_if(out, [](const DeviceAgent& one) {
    return one.networks.empty() && one.devices == 0 && one.failure != 0;
  });
  for (DeviceAgent& one : out) {
    one.has_unit = has_unit();
    one.has_config = exists(names::kAgentConfig);
  }
  return out;
}

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

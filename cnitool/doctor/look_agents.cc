#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cnitool/doctor/agents.h"
#include "cnitool/json_at.h"
#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/config/names.h"
#include "libcni/daemon/unix_socket.h"
#include "netlink/netns.h"
#include "plugins/names/state.h"
#include "plugins/state/ledger.h"

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

}  // namespace

bool DeviceAgent::is_ledger_removed() const { return !has_run && failure != ENOENT; }

std::vector<DeviceAgent> device_agents(const std::vector<cni::NetworkList>& networks) {
  std::vector<DeviceAgent> out;
  for (const cni::NetworkList& list : networks) {
    for (const cni::PluginConf& plugin : list.plugins) {
      if (!cni::stands_for(plugin.type, "devices")) continue;
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

}  // namespace tool::doctor

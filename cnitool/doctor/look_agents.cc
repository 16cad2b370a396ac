#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cnitool/doctor/agents.h"
#include "cnitool/json_at.h"
#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "libcni/config/names.h"
#include "libcni/daemon/unix_socket.h"
#include "netlink/netns.h"
#include "plugins/names/state.h"

namespace tool::doctor {

namespace {

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool has_unit() {
  constexpr const char* kFolders[] = {"/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"};
  return std::ranges::any_of(kFolders, [](const char* folder) {
    return exists(cni::cat(folder, "/systemd/system/", names::kAgentUnit));
  });
}

// The time of a promise to a pod that is not known yet; 0 for another entry, and for a torn one.
std::int64_t unclaimed_since(const std::string& content) try {
  const nlohmann::json entry = cni::parse_json(content, "entry");
  const bool has_pod = entry.contains("pod") && !entry["pod"].is_null();
  return has_pod ? 0 : static_cast<std::int64_t>(number_at(entry, "promised"));
} catch (const cni::Error&) {
  return 0;
}

// Whether a container has the device, and is the one whose pod it was promised to: its namespace
// may exist.
bool is_held(const cni::Dir& dir, const std::string& id, const std::string& content) try {
  const auto file = dir.read(cni::cat(names::kDevicesHolder, id));
  if (!file) return false;
  const std::string first = file->content.substr(0, file->content.find('\n'));
  const nlohmann::json holder = cni::parse_json(first, "holder");
  const nlohmann::json entry = cni::parse_json(content, "entry");
  const std::string netns = text_at(holder, "netns");
  return holder.value("pod", nlohmann::json()) == entry.value("pod", nlohmann::json()) &&
         (netlink::NetNs::find(netns) || netlink::NetNs::may_hide(netns));
} catch (const std::exception&) {
  return false;  // torn, or of a later format
}

void read_ledger(DeviceAgent& agent) {
  const auto dir = cni::Dir::open(agent.ledger);
  if (!dir) return;
  agent.has_run = true;
  for (const std::string& name : dir->names()) {
    if (name.starts_with('.')) continue;  // a lock, a mark
    const auto file = dir->read(name);
    if (!file) continue;
    ++agent.devices;
    if (!is_held(*dir, name, file->content)) ++agent.open;
    if (const auto since = unclaimed_since(file->content); since != 0) {
      agent.unclaimed.push_back(since);
    }
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

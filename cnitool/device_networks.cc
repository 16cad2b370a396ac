#include "cnitool/device_networks.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/json_at.h"
#include "cnitool/output.h"
#include "cnitool/pool.h"
#include "libcni/config/json.h"
#include "libcni/plugin/log.h"
#include "plugins/names/networks.h"
#include "plugins/names/state.h"
#include "plugins/state/ledger.h"

namespace tool {

namespace {

using nlohmann::json;

DeviceNetwork network_with(const std::string& resource, const json& plugins,
                           const std::string& file) {
  DeviceNetwork out{.resource = resource, .list = {}};
  out.list.name = names::devices_network(resource);
  out.list.file = file;
  for (const json& plugin : plugins) {
    if (plugin.is_object()) out.list.plugins.push_back({text_at(plugin, "type"), plugin});
  }
  return out;
}

DeviceNetwork& network_of(std::vector<DeviceNetwork>& all, DeviceNetwork one) {
  const auto is_it = [&](const DeviceNetwork& other) { return other.resource == one.resource; };
  const auto found = std::ranges::find_if(all, is_it);
  return found != all.end() ? *found : all.emplace_back(std::move(one));
}

// What patchbay-agent would refuse is for `cnitool validate`.
void add_pools(DeviceNetworks& out, const std::string& file) try {
  const auto text = netlink::read_file(file);
  if (!text) return;
  const json root =
      cni::during(cat("read '", file, "'"), [&] { return cni::parse_json(*text, "it"); });
  const json* const pools = root.is_object() ? member(root, "pools") : nullptr;
  if (pools == nullptr || !pools->is_array()) {
    throw cni::Error(cni::Code::kInvalidConfig, cat("read '", file, "': pools: expected a list"));
  }
  const json alone = json::array({json{{"type", names::kDevicesDelegate}}});
  for (const json& pool : *pools) {
    std::string resource = pool.is_object() ? text_at(pool, "resource") : "";
    if (resource.empty()) continue;
    if (resource.find('/') == resource.npos) {
      resource = cat(text_at(root, "resourcePrefix"), "/", resource);
    }
    const json* const plugins = member(pool, "plugins");
    network_of(out.networks, network_with(resource, plugins != nullptr ? *plugins : alone, file));
  }
} catch (const cni::Error& e) {
  out.broken.push_back({file, "", e});
} catch (const netlink::Error& e) {
  out.broken.push_back({file, "", cni::Error(cni::Code::kIoFailure, e.what())});
}

void add_ledger(std::vector<DeviceNetwork>& out, const std::string& path) try {
  const auto network = [&](const std::string& resource, const std::string& plugins) -> auto& {
    return network_of(out, network_with(resource, cni::try_parse_json(plugins), path));
  };
  for (const devices::Entry& entry : devices::Ledger::shown(path)) {
    if (!entry.is_readable() || entry.is_holder_unreadable) {
      cni::note(
          cat("device '", entry.id, "' is not counted: its entry in '", path, "' cannot be read"));
    }
    if (!entry.resource.empty()) network(entry.resource, entry.plugins);
    if (entry.holder) ++network(entry.holder->resource, entry.holder->plugins).attachments;
  }
} catch (const netlink::Error& e) {
  cni::note(cat("devices of pods are not counted: ", e.what()));
}

}  // namespace

DeviceNetworks device_networks(const std::vector<cni::NetworkList>& configs) {
  DeviceNetworks out;
  add_pools(out, names::kAgentConfig);
  std::set<std::string> ledgers{names::kDevicesLedgerDir};
  for (const cni::NetworkList& list : configs) {
    const json* const plugin = plugin_with(cni::Fact::kDevices, list);
    if (plugin != nullptr) ledgers.insert(text_at(*plugin, "ledgerDir", names::kDevicesLedgerDir));
  }
  for (const std::string& ledger : ledgers) add_ledger(out.networks, ledger);
  return out;
}

}  // namespace tool

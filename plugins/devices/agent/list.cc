#include "plugins/devices/agent/list.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "libcni/common/error.h"
#include "libcni/daemon/client.h"
#include "plugins/devices/agent/inventory/inventory.h"
#include "plugins/devices/agent/stock/stock.h"
#include "plugins/devices/ledger/ledger.h"
#include "plugins/devices/protocol/message.h"

namespace devices {

namespace {

using cni::cat;
using Json = nlohmann::ordered_json;

void add_if(Json& out, const char* key, const std::string& value) {
  if (!value.empty()) out[key] = value;
}

void describe(Json& out, const Device& device) {
  if (device.link) {
    out["link"] = device.link->name;
    add_if(out, "kind", device.link->kind);
    if (device.link->permanent_mac) out["permanentMAC"] = device.link->permanent_mac->str();
    out["mtu"] = device.link->mtu;
    out["up"] = device.link->up;
    out["carrier"] = device.link->carrier;
    add_if(out, "parent", device.link->parent);
  }
  if (device.bus == Bus::kAuxiliary) out["auxiliary"] = device.id;
  add_if(out, "pci", device.pci);
  add_if(out, "driver", device.driver);
  add_if(out, "vendor", device.vendor);
  add_if(out, "device", device.device);
  add_if(out, "physicalFunction", device.physical_function);
  if (!device.physical_link.empty()) out["parent"] = device.physical_link;
  if (!device.virtual_functions.empty()) out["virtualFunctions"] = device.virtual_functions;
}

void describe(Json& out, const Entry& entry) {
  if (entry.pod) {
    out["pod"] = entry.pod->str();
    add_if(out, "uid", entry.pod->uid);
  }
  if (entry.promised != 0) out["promised"] = entry.promised;
  if (entry.holder) {
    out["interface"] = entry.holder->interface;
    out["container"] = entry.holder->owner.container_id;
  }
}

// The entry of the device. One of another resource is that of a pool that has been renamed.
void describe_entry(Json& out, const Entries& entries, const std::string& resource) {
  const auto entry = entries.find(out["id"].get<std::string>());
  if (entry == entries.end() || entry->second.resource.empty()) return;
  describe(out, entry->second);
  if (entry->second.resource != resource) out["promisedAs"] = entry->second.resource;
}

Json json_of(const Item& item, const std::string& resource, const Entries& entries) {
  Json out = {{"id", item.offer.id}, {"resource", resource}, {"healthy", item.offer.healthy}};
  if (item.is_forced) out["forced"] = true;
  if (item.slot) out["slot"] = *item.slot;
  if (item.device) describe(out, *item.device);
  if (item.offer.numa) out["numa"] = *item.offer.numa;
  describe_entry(out, entries, resource);
  return out;
}

Json json_of(const KeptBack& one, const Entries& entries) {
  Json out = {{"id", one.device.id}, {"keptBack", one.reason}};
  describe(out, one.device);
  if (one.device.numa) out["numa"] = *one.device.numa;
  describe_entry(out, entries, "");
  return out;
}

std::string text_at(const Json& one, const char* key) {
  const auto value = one.find(key);
  if (value == one.end()) return "-";
  return value->is_string() ? value->get<std::string>() : value->dump();
}

std::string state_of(const Json& one) {
  const bool is_offered = !one.contains("keptBack");
  std::string out = cat("kept back: ", text_at(one, "keptBack"));
  if (is_offered) out = one["healthy"].get<bool>() ? "healthy" : "unhealthy";
  if (one.contains("forced")) out += ", forced";
  if (one.contains("pod")) {
    out += cat(", of pod ", text_at(one, "pod"));
  } else if (one.contains("promised")) {
    out += ", allocated to a pod";
  }
  if (is_offered && one.contains("promisedAs")) out += cat(" by ", text_at(one, "promisedAs"));
  if (one.contains("interface")) out += cat(" as ", text_at(one, "interface"));
  return out;
}

}  // namespace

Json list_of(const Pools& pools, const Places& places) {
  Entries entries;
  if (const auto ledger = Ledger::find(places.ledger)) {
    for (Entry& entry : ledger->all()) entries.emplace(entry.id, entry);
  }
  const auto devices = inventory(node_links(), Sysfs(places.sysfs).hardware());
  const Stock stock = stock_of(pools, devices, entries);
  Json out = Json::array();
  for (std::size_t i = 0; i < stock.pools.size(); ++i) {
    for (const auto& [id, item] : stock.pools[i]) {
      out.push_back(json_of(item, pools.pools[i].resource, entries));
    }
  }
  for (const KeptBack& one : stock.kept_back) out.push_back(json_of(one, entries));
  return out;
}

AgentStatus status_of(const std::string& socket) {
  const auto answer = answer_in(cni::exchange_line(socket, line_of(Question{.verb = Verb::kStatus}),
                                                   std::chrono::seconds(5), kMaxAnswer));
  if (answer.error) throw cni::Error(*answer.error);
  AgentStatus out;
  for (const ResourceState& one : answer.resources) {
    out.text += cat(one.name, ": ", one.devices, one.devices == 1 ? " device, " : " devices, ",
                    one.healthy, " healthy", one.is_read ? "" : ", not read by the kubelet", "\n");
    if (!one.is_read) out.unread.push_back(one.name);
  }
  return out;
}

std::string table_of(const Json& list) {
  using Row = std::array<std::string, 6>;
  std::vector<Row> rows = {{"ID", "LINK", "DRIVER", "NUMA", "RESOURCE", "STATE"}};
  for (const Json& one : list) {
    rows.push_back({text_at(one, "id"), text_at(one, "link"), text_at(one, "driver"),
                    text_at(one, "numa"), text_at(one, "resource"), state_of(one)});
  }
  Row::size_type last = rows[0].size() - 1;
  std::array<std::size_t, 6> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < last; ++i) {
      out += cat(row[i], std::string(widths[i] + 2 - row[i].size(), ' '));
    }
    out += cat(row[last], "\n");
  }
  return out;
}

}  // namespace devices

#include "cnitool/networks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "cnitool/cached.h"
#include "cnitool/device_networks.h"
#include "cnitool/pool.h"
#include "libcni/common/undo.h"

namespace tool {

namespace {

using nlohmann::ordered_json;

struct Row {
  std::string name, file;
  std::vector<std::string> plugins;
  std::vector<Pool> pools;
  std::size_t attachments = 0;
  std::string resource = {};  ///< empty: a network that runtimes know
};

// "bridge(host-local)".
std::string plugin_text(const cni::PluginConf& plugin) {
  const std::string ipam = ipam_type_of(plugin);
  return ipam.empty() ? plugin.type : cat(plugin.type, "(", ipam, ")");
}

Row row_of(const cni::NetworkList& list, std::size_t attachments,
           const std::string& resource = {}) {
  Row row{list.name, list.file, {}, pools_of(list), attachments, resource};
  for (const cni::PluginConf& plugin : list.plugins) row.plugins.push_back(plugin_text(plugin));
  return row;
}

std::vector<Row> rows_of(const cni::Networks& configs, const std::vector<DeviceNetwork>& devices,
                         const cni::Cache& cache) {
  std::map<std::string, std::size_t> attachments;
  for (const auto& one : sorted_entries(cache)) ++attachments[one.key.network];
  std::vector<Row> out;
  for (const cni::NetworkList& list : configs.lists) {
    out.push_back(row_of(list, attachments[list.name]));
    attachments.erase(list.name);
  }
  for (const DeviceNetwork& one : devices) {
    out.push_back(row_of(one.list, one.attachments, one.resource));
  }
  for (const auto& [name, count] : attachments) out.push_back({name, "", {}, {}, count});
  return out;
}

// An IPv6 subnet has more addresses than a person wants to read.
bool is_countable(std::uint64_t size) { return size <= 0xffffffff; }

ordered_json json_of(const Row& row) {
  auto subnets = ordered_json::array();
  for (const Pool& pool : row.pools) {
    for (const cni::RangeSet& set : pool.sets) {
      const std::uint64_t size = set.size();
      subnets.push_back({{"subnets", subnets_in(set)},
                         {"used", used_of(pool, set)},
                         {"total", is_countable(size) ? ordered_json(size) : ordered_json()}});
    }
  }
  ordered_json out{{"network", row.name},
                   {"plugins", row.plugins},
                   {"pools", subnets},
                   {"attachments", row.attachments},
                   {"file", row.file.empty() ? ordered_json() : ordered_json(row.file)}};
  if (!row.resource.empty()) out["resource"] = row.resource;
  return out;
}

std::vector<Cell> cells_of(const Row& row) {
  std::vector<std::string> subnets, used;
  for (const Pool& pool : row.pools) {
    for (const cni::RangeSet& set : pool.sets) {
      const std::uint64_t size = set.size();
      subnets.push_back(joined(subnets_in(set), "+"));
      used.push_back(cat(used_of(pool, set), is_countable(size) ? cat("/", size) : ""));
    }
  }
  const auto or_dash = [](const std::string& text) { return text.empty() ? "-" : text; };
  return {{row.name},
          {or_dash(joined(row.plugins, ","))},
          {or_dash(joined(subnets, ","))},
          {or_dash(joined(used, ","))},
          {cat(row.attachments)},
          {row.file.empty() ? "no config" : row.file,
           row.file.empty() ? Colour::kYellow : Colour::kPlain}};
}

}  // namespace

void networks(const Settings& settings, const Output& output) {
  cni::Networks configs = cni::load_networks(settings.conf_dir);
  const DeviceNetworks devices = device_networks(configs.lists);
  std::ranges::copy(devices.broken, std::back_inserter(configs.broken));
  const auto rows = rows_of(configs, devices.networks, cni::Cache(settings.cache_dir));
  if (output.json) {
    ordered_json out{{"networks", ordered_json::array()}, {"broken", ordered_json::array()}};
    for (const Row& row : rows) out["networks"].push_back(json_of(row));
    for (const auto& [file, network, error] : configs.broken) {
      out["broken"].push_back({{"file", file}, {"why", error.what()}});
    }
    return output.print(out);
  }
  note_broken(configs);
  std::vector<std::vector<Cell>> table{{}};
  for (const char* heading : {"NETWORK", "PLUGINS", "SUBNETS", "USED", "ATTACHMENTS", "FILE"}) {
    table[0].push_back({heading, Colour::kBold});
  }
  for (const Row& row : rows) table.push_back(cells_of(row));
  print_table(output, table);
}

}  // namespace tool

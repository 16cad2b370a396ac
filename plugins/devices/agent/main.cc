#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "libcni/common/error.h"
#include "libcni/config/complaints.h"
#include "libcni/plugin/manual.h"
#include "libcni/plugin/plugin.h"
#include "netlink/types/fd.h"
#include "plugins/devices/agent/blocks.h"
#include "plugins/devices/agent/commands.h"
#include "plugins/devices/agent/daemon.h"
#include "plugins/devices/agent/inventory/inventory.h"
#include "plugins/devices/agent/log.h"
#include "plugins/devices/agent/nri/commands.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/agent/stock/stock.h"
#include "plugins/names/state.h"
#include "plugins/state/ledger.h"

namespace devices {

namespace {

using cni::cat;
using Json = nlohmann::ordered_json;

/// The command line.
struct Options {
  std::string config = names::kAgentConfig;
  Paths paths = {};
  BlockOptions blocks = {};
  std::string log_level = "info";
  bool schema = false, keys = false, validate = false;
  bool list = false, status = false, withdraw = false;  ///< subcommands
  bool list_json = false;
  bool of_blocks = false;                    ///< subcommand: schema, keys and validate are theirs
  bool nri_log = false, nri_inject = false;  ///< subcommands of nri
  nri::Meeting meeting = {};
  nri::LogOptions log = {};
  std::vector<std::string> allowed;  ///< namespaces
};

// NRI of the container runtime. The subcommands are plugins of it, processes of their own.
void define_nri(CLI::App& app, Options& options) {
  app.add_option("--nri-socket", options.paths.nri_socket,
                 "socket of the container runtime's NRI, /var/run/nri/nri.sock, to see pods end; "
                 "empty: none");
  CLI::App* const all = app.add_subcommand("nri", "plugins of the container runtime, by NRI");
  all->require_subcommand(1);
  CLI::App* const log = all->add_subcommand("log", "print the life of pods as lines of JSON");
  CLI::App* const inject = all->add_subcommand(
      "inject", "add device nodes, CDI devices and sysctls that annotations of pods ask for");
  for (CLI::App* const one : {log, inject}) {
    one->add_option("--socket", options.meeting.peer.socket, "socket of the container runtime")
        ->capture_default_str();
    one->add_option("--name", options.meeting.identity.name, "name of the plugin");
    one->add_option("--index", options.meeting.identity.index,
                    "two digits: the runtime calls plugins in this order");
  }
  log->add_flag("--containers", options.log.containers, "events of containers, too");
  log->add_option("--cni-cache", options.log.cache, "cache directory of the runtime's CNI")
      ->capture_default_str();
  inject->add_option("--allow", options.allowed, "namespace whose pods may ask; repeatable")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  log->callback([&options] { options.nri_log = true; });
  inject->callback([&options] { options.nri_inject = true; });
}

// Pools of the whole cluster. With that config alone the process serves no devices.
void define_blocks(CLI::App& app, Options& options) {
  const auto path = [&app](const char* name, std::string& field, const char* description) {
    app.add_option(name, field, description)->capture_default_str();
  };
  path("--blocks-config", options.blocks.config,
       "config: blocks of pools of the cluster. If it exists, blocks are served; if --config does "
       "not exist then, devices are not");
  path("--blocks-dir", options.blocks.paths.folder, "directory of the blocks of this node");
  path("--blocks-socket", options.blocks.paths.socket, "socket for cnitool blocks release");
  path("--blocks-metrics-file", options.blocks.metrics,
       "file for metrics of blocks in the format of Prometheus");
  CLI::App* const blocks = app.add_subcommand(
      "blocks", "--schema, --keys and --validate are those of the config of blocks");
  blocks->fallthrough();
  blocks->callback([&options] { options.of_blocks = true; });
}

void define(CLI::App& app, Options& options) {
  app.set_version_flag("--version", cat("patchbay-agent ", cni::build_text()));
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const auto path = [&app](const char* name, std::string& field, const char* description) {
    app.add_option(name, field, description)->capture_default_str();
  };
  path("--config", options.config, "config: pools of devices");
  path("--kubelet-dir", options.paths.kubelet_dir, "root directory of the kubelet");
  path("--ledger", options.paths.places.ledger, "directory of the ledger, which survives a reboot");
  path("--socket", options.paths.socket, "socket for the plugin devices");
  path("--plugin-dir", options.paths.plugin_dir,
       "directory of plugins, which are asked about the parameters of claims if they are there");
  path("--cdi-dir", options.paths.places.cdi, "directory of CDI specs; empty: none are written");
  path("--device-info-dir", options.paths.places.device_info,
       "directory of device-info files; empty: none are written");
  path("--sysfs", options.paths.places.sysfs, "where sysfs is mounted");
  path("--metrics-file", options.paths.places.metrics,
       "file for metrics in the format of Prometheus");
  define_blocks(app, options);
  app.add_option("--log-level", options.log_level, "debug, info, warning or error")
      ->capture_default_str()
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  app.add_flag("--schema", options.schema, "print the JSON Schema of the config");
  app.add_flag("--keys", options.keys, "print the keys of the config as a Markdown table");
  app.add_flag("--validate", options.validate, "read a config from stdin and report its errors");
  CLI::App* const list =
      app.add_subcommand("list", "list the node's devices: who offers each, or why nobody does");
  list->fallthrough();
  list->add_flag("--json", options.list_json, "as JSON");
  list->callback([&options] { options.list = true; });
  app.add_subcommand(
         "status",
         "ask the running agent for its resources and blocks: exit status 1 without it, "
         "or if the kubelet does not read them")
      ->fallthrough()
      ->callback([&options] { options.status = true; });
  app.add_subcommand("withdraw",
                     "remove the ResourceSlices of this node, before the agent is removed from it")
      ->fallthrough()
      ->callback([&options] { options.withdraw = true; });
}

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
  if (entry.claim) out["claim"] = entry.claim->str();
  if (entry.promised != 0) out["promised"] = entry.promised;
  if (entry.holder) {
    out["interface"] = entry.holder->interface;
    out["container"] = entry.holder->owner.key.container_id;
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

// Each device of the node and slot of the config, its resource or why it has none, and the pod that
// it belongs to. Looks at the node, and at the ledger if there is one.
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

// The list for persons: a line each.
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

// Prints what --validate of a plugin does, and for each pool the keys that the agent adds to its
// first plugin: cnitool reads it, and asks the plugins.
int validate() {
  const auto verdict = judge_pools(netlink::read_all(STDIN_FILENO, "stdin"));
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (!verdict.refusal.empty()) out = {{"code", verdict.code}, {"msg", verdict.refusal}};
  if (!verdict.complaints.empty()) out["findings"] = cni::json_of(verdict.complaints);
  for (const AddedKeys& one : verdict.added) {
    out["added"].push_back({{"path", one.path}, {"keys", *one.keys}});
  }
  if (!out.empty()) std::cout << out.dump(4) << '\n';
  return verdict.refusal.empty() ? 0 : 1;
}

// No pools without a config: the list is used to write the first one.
Pools pools_to_list(const Options& options) {
  if (::access(options.config.c_str(), F_OK) == 0 || errno != ENOENT) {
    return Pools::load(options.config);
  }
  std::cerr << "patchbay-agent: no config '" << options.config << "' yet: nothing is offered\n";
  return {};
}

int list(const Options& options) {
  const Pools pools = pools_to_list(options);
  const auto listed = list_of(pools, options.paths.places);
  std::cout << (options.list_json ? listed.dump(4) + '\n' : table_of(listed));
  for (const Pool& pool : pools.pools) {
    const bool is_empty = std::ranges::none_of(
        listed, [&](const auto& one) { return one.value("resource", "") == pool.resource; });
    if (!is_empty) continue;
    std::cerr << "patchbay-agent: pool '" << pool.resource << "' selects no device to offer\n";
  }
  return 0;
}

// Why it cannot start is a line of its log, too.
int serve(const Options& options) try {
  cni::as_error([&] {
    const auto blocks = blocks_of(options.blocks);
    const bool has_devices = ::access(options.config.c_str(), F_OK) == 0 || errno != ENOENT;
    if (blocks && !has_devices) return serve_alone(blocks);
    if (!has_devices) {
      throw cni::Error(
          cni::Code::kInternal,
          cat("neither '", options.config, "' nor '", options.blocks.config, "' exists"),
          "`patchbay-agent --schema` and `patchbay-agent blocks --schema` print the "
          "keys of both");
    }
    devices::serve(Pools::load(options.config), options.paths, blocks);
  });
  return 0;
} catch (const cni::Error& e) {
  const char* const separator = e.details().empty() ? "" : "; ";
  log(Level::kError, "start", {.error = cat(e.what(), separator, e.details())});
  return 1;
}

// Of what serve() serves.
int status(const Options& options) {
  const bool has_blocks = ::access(options.blocks.config.c_str(), F_OK) == 0;
  const bool has_devices = ::access(options.config.c_str(), F_OK) == 0;
  const int of_blocks = has_blocks ? print_block_status(options.blocks.paths.socket) : 0;
  const int of_devices = has_devices || !has_blocks ? print_status(options.paths.socket) : 0;
  return std::max(of_blocks, of_devices);
}

// As an external plugin of the runtime.
int serve_nri(Options& options) {
  const char* const name = options.nri_log ? "patchbay-log" : "patchbay-inject";
  auto& [given, index] = options.meeting.identity;
  if (given.empty()) given = name;
  if (index.empty()) index = options.nri_log ? "90" : "10";
  if (options.nri_log) {
    nri::log_pods(std::move(options.meeting), options.log);
  } else {
    nri::inject(std::move(options.meeting), options.allowed);
  }
  return 0;
}

int run(Options& options) {
  cni::set_log_level(cni::level_of(options.log_level).value_or(Level::kInfo));
  if (options.of_blocks) {
    return describe_blocks({options.schema, options.keys, options.validate});
  }
  if (options.schema) {
    std::cout << pools_schema().dump(4) << '\n';
  } else if (options.keys) {
    std::cout << cni::key_table(kPoolsManual);
  } else if (options.validate) {
    return validate();
  } else if (options.list) {
    return list(options);
  } else if (options.status) {
    return status(options);
  } else if (options.withdraw) {
    return withdraw(options.config);
  } else if (options.nri_log || options.nri_inject) {
    return serve_nri(options);
  } else {
    return serve(options);
  }
  return 0;
}

}  // namespace

}  // namespace devices

int main(int argc, char** argv) try {
  if (cni::as_error([&] { return devices::nri::run_preinstalled(argv[0]); })) return 0;
  devices::Options options;
  CLI::App app(
      "Offers devices of the node to pods: a driver of Dynamic Resource Allocation and a device "
      "plugin of the kubelet. With \"nri\", a plugin of the container runtime.",
      "patchbay-agent");
  devices::define(app, options);
  devices::define_nri(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return cni::as_error([&] { return devices::run(options); });
} catch (const cni::Error& e) {
  std::cerr << "patchbay-agent: " << e.what() << (e.details().empty() ? "" : "\n  ") << e.details()
            << '\n';
  return 1;
}

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/config/complaints.h"
#include "libcni/plugin/manual.h"
#include "netlink/types/fd.h"
#include "plugins/devices/agent/daemon.h"
#include "plugins/devices/agent/list.h"
#include "plugins/devices/agent/log.h"
#include "plugins/devices/agent/options.h"
#include "plugins/devices/agent/pools/pools.h"

namespace {

using devices::Options;
using devices::Pools;

// As --validate of a plugin, and for each pool the keys that the agent adds to its first plugin:
// cnitool reads it, and asks the plugins.
int validate() {
  const auto verdict = devices::judge_pools(netlink::read_all(STDIN_FILENO, "stdin"));
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (!verdict.refusal.empty()) out = {{"code", verdict.code}, {"msg", verdict.refusal}};
  if (!verdict.complaints.empty()) out["findings"] = cni::json_of(verdict.complaints);
  for (const devices::AddedKeys& one : verdict.added) {
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
  const auto listed = devices::list_of(pools, options.places);
  std::cout << (options.list_json ? listed.dump(4) + '\n' : devices::table_of(listed));
  for (const devices::Pool& pool : pools.pools) {
    const bool is_empty = std::ranges::none_of(
        listed, [&](const auto& one) { return one.value("resource", "") == pool.resource; });
    if (!is_empty) continue;
    std::cerr << "patchbay-agent: pool '" << pool.resource << "' selects no device to offer\n";
  }
  return 0;
}

int status(const Options& options) {
  const devices::AgentStatus found = devices::status_of(options.socket);
  std::cout << found.text << std::flush;
  for (const std::string& resource : found.unread) {
    std::cerr << "patchbay-agent: the kubelet does not read the list of '" << resource
              << "': no pod gets its devices. Is the kubelet running? Its log says more\n";
  }
  return found.unread.empty() ? 0 : 1;
}

// Why it cannot start is a line of its log, too.
int serve(const Options& options) try {
  devices::serve(Pools::load(options.config), options);
  return 0;
} catch (const cni::Error& e) {
  const char* const separator = e.details().empty() ? "" : "; ";
  devices::log(devices::Level::kError, "start",
               {.error = cni::cat(e.what(), separator, e.details())});
  return 1;
} catch (const std::exception& e) {
  devices::log(devices::Level::kError, "start", {.error = e.what()});
  return 1;
}

int run(const Options& options) {
  cni::set_log_level(cni::level_of(options.log_level).value_or(devices::Level::kInfo));
  if (options.schema) {
    std::cout << devices::pools_schema().dump(4) << '\n';
  } else if (options.keys) {
    std::cout << cni::key_table(devices::kPoolsManual);
  } else if (options.validate) {
    return validate();
  } else if (options.list) {
    return list(options);
  } else if (options.status) {
    return status(options);
  } else {
    return serve(options);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  CLI::App app("Offers devices of the node to pods: a device plugin of the kubelet.",
               "patchbay-agent");
  devices::define(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return run(options);
} catch (const cni::Error& e) {
  std::cerr << "patchbay-agent: " << e.what() << (e.details().empty() ? "" : "\n  ") << e.details()
            << '\n';
  return 1;
} catch (const std::exception& e) {
  std::cerr << "patchbay-agent: " << e.what() << '\n';
  return 1;
}

#include "plugins/devices/agent/options.h"

#include <CLI/CLI.hpp>

#include "libcni/common/error.h"
#include "libcni/plugin/plugin.h"

namespace devices {

void define(CLI::App& app, Options& options) {
  app.set_version_flag("--version", cni::cat("patchbay-agent ", cni::build_text()));
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const auto path = [&app](const char* name, std::string& field, const char* description) {
    app.add_option(name, field, description)->capture_default_str();
  };
  path("--config", options.config, "config: pools of devices");
  path("--kubelet-dir", options.kubelet_dir, "root directory of the kubelet");
  path("--ledger", options.places.ledger, "directory of the ledger, which survives a reboot");
  path("--socket", options.socket, "socket for the plugin devices");
  path("--cdi-dir", options.places.cdi, "directory of CDI specs; empty: none are written");
  path("--device-info-dir", options.places.device_info,
       "directory of device-info files; empty: none are written");
  path("--sysfs", options.places.sysfs, "where sysfs is mounted");
  path("--metrics-file", options.places.metrics, "file for metrics in the format of Prometheus");
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
  app.add_subcommand("status",
                     "ask the running agent for its resources: exit status 1 without it, or if the "
                     "kubelet does not read them")
      ->fallthrough()
      ->callback([&options] { options.status = true; });
}

}  // namespace devices

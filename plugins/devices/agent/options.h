#pragma once

#include <string>

#include "plugins/devices/agent/core.h"
#include "plugins/names/state.h"

namespace CLI {
class App;
}

namespace devices {

/// The command line of patchbay-agent.
struct Options {
  std::string config = names::kAgentConfig;
  std::string kubelet_dir = "/var/lib/kubelet";
  std::string socket = names::kDevicesSocket;
  Places places{.ledger = names::kDevicesLedgerDir,
                .cdi = "/var/run/cdi",
                .device_info = "/var/run/k8s.cni.cncf.io/devinfo/dp",
                .sysfs = "/sys",
                .metrics = ""};
  std::string log_level = "info";
  bool schema = false, keys = false, validate = false;
  bool list = false;       ///< the subcommand
  bool list_json = false;  ///< of it
  bool status = false;     ///< the subcommand
};

void define(CLI::App& app, Options& options);

}  // namespace devices

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "plugins/devices/agent/core.h"
#include "plugins/names/state.h"

namespace devices {

/// Paths of the daemon, with their defaults.
struct Paths {
  std::string kubelet_dir = "/var/lib/kubelet";
  std::string socket = names::kDevicesSocket;
  std::string nri_socket = {};  ///< of the container runtime; empty: pods are not seen by NRI
  std::string plugin_dir = "/opt/cni/bin";  ///< whose plugins judge the parameters of claims
  Places places{.ledger = names::kDevicesLedgerDir,
                .cdi = "/var/run/cdi",
                .device_info = "/var/run/k8s.cni.cncf.io/devinfo/dp",
                .sysfs = "/sys",
                .metrics = ""};
};

/// Starts what else the process serves, with threads of its own, and returns what ends it.
using StartBeside = std::function<std::shared_ptr<void>()>;

/// Serves the kubelet and the plugin `devices` until SIGTERM or SIGINT. beside may be empty.
/// \throws cni::Error, netlink::Error.
void serve(Pools pools, const Paths& paths, const StartBeside& beside);
/// The same of a process without devices.
void serve_alone(const StartBeside& beside);

}  // namespace devices

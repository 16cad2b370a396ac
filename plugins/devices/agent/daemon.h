#pragma once

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

/// Serves the kubelet and the plugin `devices` until SIGTERM or SIGINT.
/// \throws cni::Error, netlink::Error.
void serve(Pools pools, const Paths& paths);

}  // namespace devices

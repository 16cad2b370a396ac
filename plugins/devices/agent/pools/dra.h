#pragma once

#include <string>

namespace devices {

/// Dynamic Resource Allocation of Kubernetes: pools are offered as devices of a driver.
struct Dra {
  std::string driver = "devices.patchbay";
  std::string node = {};        ///< its name in Kubernetes; empty in the config: cni::node_name()
  std::string kubeconfig = {};  ///< path; empty: as a pod of the cluster
};

/// Whether it may be the name of a driver: its sockets bear it.
bool is_driver(const std::string& text);

}  // namespace devices

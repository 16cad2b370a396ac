#pragma once

#include <string>
#include <vector>

/// Answers of the kubelet's PodResources, as the core and its callers pass them.
namespace devices {

/// Devices of one resource that a pod has.
struct Owned {
  std::string resource;
  std::vector<std::string> ids;
  bool operator==(const Owned&) const = default;
};

/// A pod of the node, by namespace and name: PodResources has no UID.
struct PodDevices {
  std::string space, name;
  std::vector<Owned> devices;  ///< of all its containers
  bool operator==(const PodDevices&) const = default;
};

}  // namespace devices

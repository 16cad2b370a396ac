#include "plugins/devices/agent/kubelet/pods.h"

#include <map>
#include <set>
#include <utility>

namespace devices {

// Containers of a pod may have devices of one resource, and one container several lists of it: of
// each NUMA node.
PodDevices devices_of(const v1::PodResources& pod, const Wanted& wanted) {
  std::map<std::string, std::set<std::string>> found;
  for (const auto& container : pod.containers()) {
    for (const auto& devices : container.devices()) {
      if (devices.device_ids().empty() || !wanted(devices.resource_name())) continue;
      found[devices.resource_name()].insert(devices.device_ids().begin(),
                                            devices.device_ids().end());
    }
  }
  PodDevices out{pod.namespace_(), pod.name(), {}};
  for (const auto& [resource, ids] : found)
    out.devices.push_back({resource, {ids.begin(), ids.end()}});
  return out;
}

std::vector<PodDevices> devices_of(const v1::ListPodResourcesResponse& answer,
                                   const Wanted& wanted) {
  std::vector<PodDevices> out;
  for (const v1::PodResources& pod : answer.pod_resources()) {
    out.push_back(devices_of(pod, wanted));
  }
  return out;
}

}  // namespace devices

#pragma once

#include <podresources.pb.h>

#include <functional>
#include <string>
#include <vector>

#include "plugins/devices/agent/owned.h"

namespace devices {

/// Whether devices of a resource are listed.
using Wanted = std::function<bool(const std::string& resource)>;

/// The devices that a pod has in an answer of PodResources, each once, and none of other resources.
PodDevices devices_of(const v1::PodResources& pod, const Wanted& wanted);
/// All pods, also those without such devices.
std::vector<PodDevices> devices_of(const v1::ListPodResourcesResponse& answer,
                                   const Wanted& wanted);

}  // namespace devices

#pragma once

#include <podresources.pb.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plugins/devices/agent/owned.h"

namespace devices {

/// Whether devices of a resource are listed.
using Wanted = std::function<bool(const std::string& resource)>;

/// The devices that a pod has in an answer of PodResources, each once; empty: none of the wanted
/// ones.
std::optional<PodDevices> devices_of(const v1::PodResources& pod, const Wanted& wanted);
/// The pods that have some.
std::vector<PodDevices> devices_of(const v1::ListPodResourcesResponse& answer,
                                   const Wanted& wanted);

}  // namespace devices

#pragma once

#include <optional>
#include <vector>

#include "libcni/plugin/request.h"
#include "plugins/devices/conf.h"
#include "plugins/state/ledger.h"

/// The devices of a pod: patchbay-agent decides. If it does not answer, no pod passes as long as
/// the ledger has a device that no container of another pod has.
namespace devices {

/// The pod of CNI_ARGS: K8S_POD_NAMESPACE, K8S_POD_NAME and K8S_POD_UID. Empty where one of them is
/// missing. \throws cni::Error(kInvalidEnvironment) naming those, if the config requires a device,
/// or if the UID alone is missing and a device may be the pod's.
std::optional<Pod> pod_of(const cni::Request& request, const Conf& conf);

/// The entries of the pod's devices with its UID, sorted by resource and ID. \throws cni::Error:
/// that of patchbay-agent; kTryAgainLater where a device may be the pod's and nobody says so, and
/// where it has none although the config requires one.
std::vector<Entry> devices_of(const cni::Request& request, const Conf& conf, const Pod& pod);

/// \throws cni::Error(kPluginUnavailable) where patchbay-agent does not answer.
void require_agent(const Conf& conf);

}  // namespace devices

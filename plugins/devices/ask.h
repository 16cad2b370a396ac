#pragma once

#include <optional>
#include <vector>

#include "libcni/plugin/request.h"
#include "plugins/devices/conf.h"
#include "plugins/devices/ledger/ledger.h"

/// Which devices a pod has: patchbay-agent answers, and the ledger where it does not run.
namespace devices {

/// The pod of CNI_ARGS: K8S_POD_NAMESPACE, K8S_POD_NAME and K8S_POD_UID. Empty where one of them is
/// missing. \throws cni::Error(kInvalidEnvironment) naming those, if the config requires a device
/// or the ledger has one that may be the pod's.
std::optional<Pod> pod_of(const cni::Request& request, const Conf& conf);

/// The entries of the pod's devices with its UID, sorted by resource and ID. \throws cni::Error:
/// kTryAgainLater where it is not known yet what the pod has, and where it has none although the
/// config requires one.
std::vector<Entry> devices_of(const cni::Request& request, const Conf& conf, const Pod& pod);

/// \throws cni::Error(kPluginUnavailable) where patchbay-agent does not answer.
void require_agent(const Conf& conf);

}  // namespace devices

#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kubernetes/client.h"
#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/ledger_cache.h"
#include "plugins/devices/agent/promises.h"
#include "plugins/state/ledger.h"

/// Devices of the device plugin API that only init containers of a pod ask for. The kubelet
/// allocates them, but PodResources does not list them (Kubernetes 1.36; it lists restartable
/// ones).
namespace devices::dra {

/// How many devices of each resource one of the pod's init containers asks for, restartable ones
/// aside: these run one after the other, with the same devices.
/// \param pod the object of the API; of another form it has none.
std::map<std::string, std::size_t> init_requests(const nlohmann::json& pod);

/// Those of the resource that are the pod's besides what PodResources lists: what the ledger has as
/// the pod's, and promises to no pod if they cannot be another pod's.
/// \param count that the pod is to have beyond the listed ones
/// \throws cni::Error(kTryAgainLater) where it is not known which promises are the pod's.
std::vector<std::string> unlisted(const Pod& pod, const Owned& listed, std::size_t count,
                                  const Entries& entries);

/// Asks the API server for the pod's spec, if a promise may be the pod's that PodResources does not
/// list: most pods ask for no device, and wait for nothing. Thread-safe.
class InitDevices {
 public:
  /// \throws cni::Error: access_of().
  InitDevices(Core& core, const Dra& dra, const std::string& ledger);

  /// The devices in addition to those that PodResources lists for the pod. An API server that does
  /// not answer within 2 s, or refuses, is logged, and adds none: pods without devices do not
  /// depend on it. \throws cni::Error: unlisted().
  std::vector<Owned> of(const Pod& pod, const std::vector<Owned>& listed);
  /// Ends calls that wait.
  void stop() noexcept { client_.stop(); }

 private:
  bool may_have(const Pod& pod, const std::vector<Owned>& listed, const Entries& entries) const;
  nlohmann::json spec_of(const Pod& pod);
  nlohmann::json get(const std::string& path);

  Core& core_;
  const Ledger ledger_;
  LedgerCache entries_{ledger_};
  kubernetes::Client client_;
  std::atomic<bool> is_forbidden_ = false;  ///< as the last call said after all tries
};

}  // namespace devices::dra

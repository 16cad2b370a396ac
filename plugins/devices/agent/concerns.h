#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugins/devices/agent/ledger_cache.h"
#include "plugins/devices/agent/owned.h"

namespace devices {

/// Whether a device may be a pod's, by the entries of the ledger and by what PodResources listed
/// last: most pods of a node have none, and need not wait for the kubelet. Thread-safe.
class Concerns {
 public:
  explicit Concerns(LedgerCache& ledger) : ledger_(ledger) {}

  /// Whether an entry is the pod's, or of a pod of its name, or promised to a pod that is not
  /// known, or cannot be read; or a pod of its name is listed, whose entry may be lost. True before
  /// the first list.
  bool operator()(const Pod& pod);
  void note(const std::vector<PodDevices>& listed);

 private:
  LedgerCache& ledger_;
  std::mutex mutex_;
  std::optional<std::set<std::string>> listed_;  ///< Pod::str()
};

}  // namespace devices

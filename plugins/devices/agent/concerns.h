#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugins/devices/agent/owned.h"
#include "plugins/devices/ledger/ledger.h"

namespace devices {

/// Whether a device may be a pod's, by the entries of the ledger and by what PodResources listed
/// last: most pods of a node have none, and need not wait for the kubelet. The entries are read
/// again only after a change. Thread-safe.
class Concerns {
 public:
  explicit Concerns(const Ledger& ledger) : ledger_(ledger) {}

  /// Whether an entry is the pod's, or of a pod of its name, or promised to a pod that is not
  /// known; or a pod of its name is listed, whose entry may be lost. True before the first list.
  bool operator()(const Pod& pod);
  void note(const std::vector<PodDevices>& listed);

 private:
  const Ledger& ledger_;
  std::mutex mutex_;
  std::string changed_;  ///< Ledger::changed() before they were read; empty: never
  std::chrono::steady_clock::time_point seen_{};  ///< when it was first like that
  bool is_settled_ = false;  ///< they were read so long after it that no change can have the same
  std::vector<Entry> entries_;
  std::optional<std::set<std::string>> listed_;  ///< Pod::str()
};

}  // namespace devices

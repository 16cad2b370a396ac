#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "plugins/devices/ledger/ledger.h"

namespace devices {

/// Whether a device may be a pod's, by the entries of the ledger. They are read again only after a
/// change, since most pods of a node have none of its devices. Thread-safe.
class Concerns {
 public:
  explicit Concerns(const Ledger& ledger) : ledger_(ledger) {}

  /// Whether an entry is the pod's, or of a pod of its name, or promised to a pod that is not
  /// known.
  bool operator()(const Pod& pod);

 private:
  const Ledger& ledger_;
  std::mutex mutex_;
  std::string changed_;  ///< Ledger::changed() before they were read; empty: never
  std::vector<Entry> entries_;
};

}  // namespace devices

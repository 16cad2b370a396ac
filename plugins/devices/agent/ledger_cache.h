#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "libcni/daemon/folder_watch.h"
#include "plugins/devices/ledger/ledger.h"

namespace devices {

/// The entries of the ledger. Only files that changed since the last look are read, by inotify(7):
/// a node may have hundreds of devices, and each ADD asks for all entries several times.
/// Thread-safe. The kernel reports a change before its system call returns: under the lock of the
/// ledger the entries are what the files have.
class LedgerCache {
 public:
  explicit LedgerCache(const Ledger& ledger);

  /// Sorted by ID.
  std::vector<Entry> all();
  /// The first that is as the function says, which must not call this object.
  std::optional<Entry> find(const std::function<bool(const Entry&)>& is);

 private:
  void look();

  const Ledger& ledger_;
  std::mutex mutex_;
  cni::FolderWatch watch_;
  bool is_watched_;  ///< else the node has no more watches, and all files are read each time
  bool is_whole_ = false;
  std::map<std::string, Entry> entries_;  ///< by the device's ID
};

}  // namespace devices

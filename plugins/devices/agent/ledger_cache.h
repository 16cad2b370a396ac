#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libcni/daemon/folder_watch.h"
#include "plugins/devices/agent/promises.h"
#include "plugins/state/ledger.h"

namespace devices {

using IsPod = std::function<bool(const Pod& pod)>;

/// The entries of the ledger, and the pods that PodResources listed last. Only files that changed
/// since the last look are read, by inotify(7): a node may have hundreds of devices, and each ADD
/// asks for all entries several times. Thread-safe. The kernel reports a change before its system
/// call returns: under the lock of the ledger the entries are what the files have.
class LedgerCache {
 public:
  explicit LedgerCache(const Ledger& ledger);

  Entries all();
  /// The first that is as the function says, which must not call this object.
  std::optional<Entry> find(const std::function<bool(const Entry&)>& is);
  /// Pods of the node with devices.
  void note(const std::vector<PodDevices>& listed);
  /// Whether a device may be the pod's: most pods of a node have none, and need not wait for the
  /// kubelet. An entry is the pod's, or of a pod of its name, or promised to a pod that is not
  /// known, or cannot be read; or a pod of its name is listed, whose entry may be lost; or it may
  /// have reserved a claim of its namespace that was prepared for another pod, as the ledger or the
  /// list has it, of which the kubelet alone knows, unless the pod is known to ask for no device.
  /// True before the first list. \param asks_for_none may be empty; must not call this object.
  bool concerns(const Pod& pod, const IsPod& asks_for_none = {});

 private:
  void look();
  void note_loss(const Entry& entry);

  const Ledger& ledger_;
  std::mutex mutex_;
  cni::FolderWatch watch_;
  bool is_watched_;  ///< else the node has no more watches, and all files are read each time
  bool is_whole_ = false;
  Entries entries_;
  std::optional<std::set<std::string>> listed_;  ///< Pod::str(), without a name: a claim's space
  std::set<std::string> lost_;  ///< the same, since the last list, which may be of before
};

}  // namespace devices

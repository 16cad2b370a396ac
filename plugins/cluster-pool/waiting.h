#pragma once

#include <chrono>
#include <string>

#include "libcni/daemon/folder_watch.h"
#include "plugins/leases/store.h"
#include "plugins/state/blocks.h"

namespace cluster_pool {

/// Waits until the agent has written of the network, or an address has come free.
class Waiting {
 public:
  Waiting(const blocks::Folder& folder, const leases::Store& store, std::chrono::seconds most);

  /// False: the time is over. A node without inotify watches is looked at each half second.
  bool next();

 private:
  bool is_worth_a_look();

  using Clock = std::chrono::steady_clock;
  std::string file_;  ///< of the agent
  Clock::time_point end_;
  cni::FolderWatch watch_;
  bool is_watched_;
};

}  // namespace cluster_pool

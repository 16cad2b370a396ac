#pragma once

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "netlink/types/fd.h"

namespace devices {

/// Waits for names that are made or removed in folders, by inotify(7). A folder that does not exist
/// yet, and what inotify cannot report, is for the caller's slow poll.
class FolderWatch {
 public:
  explicit FolderWatch(std::vector<std::string> folders);

  /// Returns after the first change, the time, or wake(); at once where a folder was not watched
  /// yet, because a change may have been missed.
  void wait(std::chrono::milliseconds most);
  /// From any thread.
  void wake() const noexcept;

 private:
  bool add_watches();
  void drain();

  std::vector<std::string> folders_;
  netlink::Fd inotify_, wake_;
  std::set<int> watches_;  ///< of folders that exist
};

}  // namespace devices

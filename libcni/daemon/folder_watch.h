#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "netlink/types/fd.h"

namespace cni {

/// Names in folders that are made, removed or changed (inotify(7)). The kernel reports a change
/// before its system call returns. What it cannot report, such as a folder that is not there yet,
/// is for a slow poll of the caller.
class FolderWatch {
 public:
  /// \param events IN_CREATE, IN_DELETE and others of inotify(7)
  explicit FolderWatch(std::uint32_t events);

  /// False: the node has no more watches (fs.inotify.max_user_instances, max_user_watches), or the
  /// folder does not exist; errno says which. Costs nothing for one that is watched already, and
  /// finds one that was made anew.
  bool add(const std::string& folder);
  /// As add(), and whether it was not watched before: a change may have been missed.
  bool is_new(const std::string& folder);
  /// To wait for, readable with a change; -1: the node has no more of them.
  int fd() const { return fd_.get(); }
  /// Names that changed since the last call. Nothing: any may have, because more changed than the
  /// kernel keeps, or a folder is gone.
  std::optional<std::vector<std::string>> take();

 private:
  std::uint32_t events_;
  netlink::Fd fd_;
  int error_;                   ///< why it has none
  std::set<int> watches_ = {};  ///< of folders that exist
};

}  // namespace cni

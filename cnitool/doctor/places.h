#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/file_users.h"
#include "libcni/runtime/cache.h"

namespace tool::doctor {

struct Node;

/// A file or directory, and who may write to it.
struct Place {
  std::string path;
  bool is_there = false;
  unsigned mode = 0, uid = 0;
};

struct FileSystem {
  std::string path;  ///< what of ours is on it
  bool in_memory = false, read_only = false;
  double free_bytes = 1, free_files = 1;  ///< parts of the whole
  bool operator==(const FileSystem&) const = default;
};

/// A state file that a later release wrote, which no verb of this one reads.
struct LaterFile {
  std::string path;
  std::vector<cni::AttachmentKey> owners;
  bool is_dead = false;     ///< all of their pods are
  bool is_foreign = false;  ///< no release wrote it
};

/// A lock that has not been free for kHungSeconds: a call has one for milliseconds.
inline constexpr int kHungSeconds = 3;
struct HeldLock {
  std::string path;
  std::set<std::string> networks = {};  ///< whose calls wait for it
  std::set<std::string> plugins = {};   ///< their types
  bool is_gc = false;                   ///< of an operation on a whole network
  std::vector<cni::FileUser> holders = {};
};

/// Sets Node::places and Node::file_systems.
void look_at_places(Node& node, const std::string& conf_dir);
/// Waits for the locks of plugins and of networks, and returns those that did not come free.
std::vector<HeldLock> held_locks(const Node& node);
/// The state files that a later release wrote, by whose owners the node has them.
std::vector<LaterFile> later_files(const Node& node);

/// Whether calls of the network would wait for a lock, which check_locks() reports.
bool is_locked(const Node& node, const std::string& network);

/// Whether an error is that of a file system which check_disks() reports: read-only, or full.
bool is_of_disk(const Node& node, std::string_view error);
bool is_full(const FileSystem& one);

}  // namespace tool::doctor

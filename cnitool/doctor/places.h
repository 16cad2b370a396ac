#pragma once

#include <string>

namespace tool::doctor {

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

}  // namespace tool::doctor

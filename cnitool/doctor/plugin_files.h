#pragma once

#include <set>
#include <string>
#include <vector>

#include "libcni/common/error.h"

namespace tool::doctor {

/// The executable of a plugin in CNI_PATH.
struct PluginFile {
  std::string type = {};
  std::string file = {};                ///< the first one in the directories; empty: none
  std::vector<std::string> later = {};  ///< those that it hides
  bool is_executable = false;
  bool is_on_noexec = false;               ///< the file system is mounted so
  std::string similar = {};                ///< where file is empty: a plugin that may be meant
  std::string failure = {};                ///< why it does not answer VERSION
  std::vector<std::string> versions = {};  ///< of the spec
  std::string patchbay = {};               ///< version of patchbay; empty: not one of it
  std::string another = {};                ///< the plugin of patchbay that is in its place

  /// Whether no call of it can succeed.
  bool is_broken() const {
    return file.empty() || !is_executable || is_on_noexec || !failure.empty() || !another.empty();
  }
};

/// The executable of all plugins, which installs them. It answers as this project's does, whatever
/// its name says: another installer may have written over it.
struct Suite {
  std::string file = {};  ///< absolute; empty: none was found
  std::string version = {};
  std::set<std::string> plugins = {};
};

/// The error that a plugin of a network returned for STATUS.
struct Complaint {
  std::string network, type;
  cni::Error error;
};

}  // namespace tool::doctor

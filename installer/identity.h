#pragma once

#include <map>
#include <string>
#include <vector>

#include "installer/folder.h"

namespace installer {

/// Says who a file in a folder of plugins is.
struct Identity {
  enum class Kind {
    kMissing,
    kSame,      ///< this executable, content and mode
    kPatchbay,  ///< another version of it, or of another mode, or a symbolic link in the folder
    kOther,     ///< another program, a symbolic link out of the folder, or nothing to be asked
  };
  Kind kind = Kind::kMissing;
  std::string version = {};  ///< of kPatchbay
  std::string what = {};     ///< as it calls itself: "CNI bridge plugin v1.9.1"; or why it cannot
  std::string plugin = {};   ///< "bridge", of `what`
};

/// This executable.
struct Self {
  std::string content;
  std::string version;
  /// Reads /proc/self/exe. \throws netlink::Error.
  static Self read();
};

using Identities = std::map<std::string, Identity>;  ///< by name

/// Looks at the files, and asks those with --version that are not this executable.
Identities identify(const Folder& folder, const std::vector<std::string>& names, const Self& self);

/// Whether the first is the older version: numbers between dots, compared one by one.
bool is_older(const std::string& version, const std::string& than);

}  // namespace installer

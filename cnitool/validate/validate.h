#pragma once

#include <string>
#include <vector>

#include "cnitool/output.h"
#include "cnitool/settings.h"
#include "libcni/plugin/request.h"

namespace tool {

/// The arguments of `cnitool validate`.
struct Validation {
  std::vector<std::string> files;  ///< networks, directories of them, or "-" for stdin
  bool strict = false;             ///< a warning is as bad as an error
  bool one_pod = false;            ///< a pod is to have all of them
};

/// Prints all that is wrong with networks, in the order of the files and of the places in them; see
/// Diagnostics. The node is looked at for the plugins alone. \return whether they may be used.
bool validate(const Validation& asked, const Settings& settings, const cni::Env& env,
              const Output& output);

/// What no runtime reads of a directory of networks: files of another suffix, and directories of
/// this one, whose names have a '/' at the end.
std::vector<std::string> unread_files(const std::string& dir);

}  // namespace tool

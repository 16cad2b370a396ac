#pragma once

#include <string>
#include <string_view>

namespace cni {

/// How a plugin names itself: `--version` prints it, and the reference plugins print it where
/// CNI_COMMAND is not set. "CNI bridge plugin v1.9.1", "CNI wire plugin" of one that
/// states no version: empty parts where it is no such line.
struct VersionLine {
  std::string line;      ///< the first one that was printed
  std::string plugin;    ///< "bridge"
  std::string version;   ///< "v1.9.1", "patchbay 0.2.0 (commit 0123456789ab)"
  std::string patchbay;  ///< "0.2.0"; empty for a plugin of others
};

VersionLine version_line_in(std::string_view printed);
/// Executes the file with --version, for at most 2 s. \throws as execute().
VersionLine version_line_of(const std::string& file);

}  // namespace cni

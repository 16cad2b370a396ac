#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cnitool/doctor/finding.h"
#include "libcni/common/error.h"
#include "libcni/runtime/runtime.h"

namespace tool::doctor {

struct Node;

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
struct StatusError {
  std::string network, type;
  cni::Error error;
};

/// The types of the plugins that a call of this one executes: its own, its delegate's, its IPAM's.
std::set<std::string> types_of(const cni::PluginConf& plugin);
std::set<std::string> types_of(const cni::NetworkList& list);
/// The networks that use a plugin.
Names users_of(const Node& node, std::string_view type);

/// A plugin of these that no call can execute, which check_plugins() reports. Null: none.
const PluginFile* broken_of(const Node& node, const std::set<std::string>& types);

/// The version line of a plugin of this project has it, and so the executable; others are not run
/// with options.
inline constexpr std::string_view kPatchbayMark = " plugin patchbay ";

/// All plugins that the networks and the attachments name, IPAM plugins too.
std::vector<PluginFile> programs_of(const Node& node, const cni::RuntimeOptions& options);

/// Asks STATUS of every plugin that knows it, whatever the version of its network is.
std::vector<StatusError> complaints_of(const Node& node, cni::RuntimeOptions options);

/// Looks for `patchbay` in the folders of plugins, beside this executable and in PATH; best of this
/// version.
Suite find_suite(const std::vector<std::string>& dirs);

}  // namespace tool::doctor

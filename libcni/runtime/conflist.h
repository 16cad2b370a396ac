#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/error.h"
#include "libcni/config/json_value.h"

namespace cni {

/// One plugin of a network.
struct PluginConf {
  std::string type;  ///< the name of its executable
  JsonValue conf;    ///< its object as it was written, with the keys that nobody here knows

  /// "name" of the object itself; empty for most.
  std::string own_name() const;
  /// The keys of "capabilities" that are true: the plugin takes them in runtimeConfig.
  std::set<std::string> capabilities() const;
};

/// A network as an administrator writes it: plugins in the order in which ADD runs them.
struct NetworkList {
  std::string name;
  /// The newest version that this build and the list both know, out of cniVersion and cniVersions;
  /// cniVersion as it stands where there is no cniVersions, known or not; "" where there is
  /// neither.
  std::string version;
  bool disable_check = false;
  bool disable_gc = false;
  std::vector<PluginConf> plugins;
  std::string file;  ///< where it was read from; empty for a list from memory
  /// A conflist that says all of this: what was read, or where plugins came from other files, the
  /// whole of it. What the result cache keeps.
  std::string text;

  /// Whether version is at least "1.1.0" or the like. \throws Error where it is no version.
  bool is_at_least(std::string_view oldest) const;
};

/// The list that text is. \throws Error with the JSON path of what is wrong: kDecodingFailure where
/// it is not JSON, kInvalidConfig.
NetworkList list_from(std::string_view text);

/// Reads a file: a list (.conflist), or one plugin's config (anything else), which becomes a list
/// of one. Unless a list has loadOnlyInlinedPlugins, the *.conf in the directory of the network's
/// name beside it are further plugins, after its own. \throws Error with the file's name in front.
NetworkList load_list(const std::string& file);

/// A file that is no network that could be used.
struct BrokenFile {
  std::string file;
  std::string network;  ///< its name, where that could be read
  Error error;
};

/// The networks of a directory.
struct Networks {
  std::string dir;
  /// The *.conflist by file name, then *.conf and *.json by file name. Of two with the same name
  /// the first counts.
  std::vector<NetworkList> lists;
  std::vector<BrokenFile> broken;

  /// \throws Error(kInvalidConfig) where there is none of that name; the error of a broken file
  /// that has it and comes before every other that has it: an older file is not used in its place.
  const NetworkList& find(const std::string& name) const;
};

/// Reads a directory; one broken file does not hide the others. A directory that is not there has
/// no networks. \throws Error where it cannot be listed.
Networks load_networks(const std::string& dir);

}  // namespace cni

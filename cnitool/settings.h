#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/plugin/request.h"
#include "libcni/runtime/cache.h"
#include "libcni/runtime/conflist.h"
#include "libcni/runtime/runtime.h"

namespace tool {

/// The settings of a call beside its command, as text: options, or the environment where there is
/// no option. The variables are those of the reference's cnitool.
struct Settings {
  std::string conf_dir;      ///< NETCONFPATH; empty: that of the runtime
  std::string path;          ///< CNI_PATH; empty: that of the runtime
  std::string ifname;        ///< CNI_IFNAME
  std::string args;          ///< CNI_ARGS
  std::string capabilities;  ///< CAP_ARGS
  std::string cache_dir = cni::Cache::kDefaultDir;
  std::string container_id;  ///< empty: made from the path of the namespace
  unsigned limit = 220;      ///< seconds for one plugin; 0 is none
  bool undo = true;          ///< a failed add

  /// The defaults: the environment, else what the reference takes.
  static Settings from(const cni::Env& env);
};

/// Fills in what is empty, of conf_dir and path: where the first runtime of the node looks. Without
/// one these are /etc/cni/net.d, and /opt/cni/bin, then where `cmake --install` puts the plugins of
/// this build. Why the runtime's config cannot be read; empty: it can, or is not needed.
std::string use_runtime(Settings& settings);

/// The first folder of plugins on a node without a runtime.
std::string default_plugin_dir();

/// A choice of attachments; an empty field: all.
struct Selection {
  std::string network = {};
  std::set<std::string> containers = {};  ///< IDs
  std::set<std::string> without = {};     ///< networks that are left out

  bool has(const cni::AttachmentKey& key) const {
    return !without.contains(key.network) && (network.empty() || network == key.network) &&
           (containers.empty() || containers.contains(key.container_id));
  }
};

/// The attachment that a path of a network namespace selects. It is made absolute, and the
/// container is named "cnitool-" and 20 digits of its SHA-512 unless it has a name, as in the
/// reference.
cni::AttachmentKey key_of(const Settings& settings, const std::string& network,
                          const std::string& netns);

/// \throws cni::Error where CNI_ARGS or CAP_ARGS is malformed.
cni::Target target_of(const Settings& settings, const std::string& netns);

cni::RuntimeOptions runtime_options(const Settings& settings, const cni::Env& env);

/// Prints the broken files of the directory of networks on stderr, a line each.
void note_broken(const cni::Networks& networks);

/// The network of that name in the directory of networks. Broken files beside it are noted.
/// \throws cni::Error.
cni::NetworkList find_network(const Settings& settings, const std::string& name);

/// \throws cni::Error if no config and no attachment in the cache has the name; an empty one is
/// all networks.
void require_network(const Settings& settings, const std::string& name);

/// Of configs and of attachments in the cache, in alphabetical order.
std::vector<std::string> network_names(const Settings& settings);

/// The networks that exist, and the nearest to a name that none has, as a sentence.
std::string hint_for_network(const Settings& settings, const std::string& name);

/// "CONTAINER:IFNAME", the part after the colon being "eth0" where it is absent.
/// \throws cni::Error where there is no container in it.
cni::Attachment attachment_from(const std::string& text);

/// A list of {containerID, ifname}, as plugins get it. \throws cni::Error where it is anything
/// else.
std::vector<cni::Attachment> attachments_from(std::string_view json);

}  // namespace tool

#pragma once

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
  std::string conf_dir;      ///< NETCONFPATH
  std::string path;          ///< CNI_PATH
  std::string ifname;        ///< CNI_IFNAME
  std::string args;          ///< CNI_ARGS
  std::string capabilities;  ///< CAP_ARGS
  std::string cache_dir = cni::Cache::kDefaultDir;
  std::string container_id;  ///< empty: made from the path of the namespace
  unsigned limit = 220;      ///< seconds for one plugin; 0 is none
  bool undo = true;          ///< a failed add

  /// The defaults: the environment, else what the reference takes (and for plugins
  /// /opt/cni/bin, then where `cmake --install` puts those of this build).
  static Settings from(const cni::Env& env);
};

/// The attachment that a path of a network namespace selects. It is made absolute, and the
/// container is named "cnitool-" and 20 digits of its SHA-512 unless it has a name, as in the
/// reference.
cni::AttachmentKey key_of(const Settings& settings, const std::string& network,
                          const std::string& netns);

/// \throws cni::Error where CNI_ARGS or CAP_ARGS is malformed.
cni::Target target_of(const Settings& settings, const std::string& netns);

cni::RuntimeOptions runtime_options(const Settings& settings, const cni::Env& env);

/// The network of that name in the directory of networks. Broken files beside it are said on
/// stderr. \throws cni::Error.
cni::NetworkList find_network(const Settings& settings, const std::string& name);

/// "CONTAINER:IFNAME", the part after the colon being "eth0" where it is absent.
/// \throws cni::Error where there is no container in it.
cni::Attachment attachment_from(const std::string& text);

/// A list of {containerID, ifname}, as plugins get it. \throws cni::Error where it is anything
/// else.
std::vector<cni::Attachment> attachments_from(std::string_view json);

}  // namespace tool

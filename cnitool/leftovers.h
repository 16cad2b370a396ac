#pragma once

#include <set>
#include <string>
#include <vector>

#include "libcni/runtime/runtime.h"

namespace tool {

/// Things of no attachment that is valid or in the cache, as the plugins of the network say. alive
/// is true of everything of a container that lives: one thing says so, or an interface of a pod has
/// its address. \throws cni::Error.
std::vector<cni::Runtime::Found> leftovers_of(const cni::NetworkList& list,
                                              const std::vector<cni::Attachment>& valid,
                                              const cni::RuntimeOptions& options);

/// The networks that something on the node belongs to, as these plugins say.
std::set<std::string> networks_of(const std::vector<cni::PluginConf>& plugins,
                                  const cni::RuntimeOptions& options);

/// "bridge: link 'veth1' of 0123456789ab (eth0)".
std::string text_of(const cni::Runtime::Found& one);

}  // namespace tool

#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/runtime/runtime.h"

namespace tool {

/// Things of no attachment that is valid or in the cache, as the plugins of the network say. What
/// is known of one thing of a container is known of all of its things: that a host veth has a peer,
/// or that an interface of a pod has its address or alias. \throws cni::Error.
std::vector<cni::Runtime::Found> leftovers_of(const cni::NetworkList& list,
                                              const std::vector<cni::Attachment>& valid,
                                              const cni::RuntimeOptions& options);

/// The networks that something on the node belongs to, as these plugins say.
std::set<std::string> networks_of(const std::vector<cni::PluginConf>& plugins,
                                  const cni::RuntimeOptions& options);

/// Whether a thing is of the attachment, or of its whole container.
bool is_of(const cni::Attachment& whose, const std::string& network, const cni::Leftover& one);

/// "bridge: link 'veth1' of 0123456789ab (eth0)".
std::string text_of(const cni::Runtime::Found& one);

/// Why a thing stays. Empty: its pod is dead.
std::string_view why_it_stays(cni::Life life);

}  // namespace tool

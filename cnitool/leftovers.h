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

/// The attachments that gc is to keep.
struct Kept {
  std::vector<cni::Attachment> attachments;
  bool living_too = false;  ///< --keep-alive
};

/// The likely owners of the network's broken cache entries, as far as they are not kept.
std::vector<cni::Attachment> broken_in(const cni::Cache::Listing& seen, const std::string& network,
                                       const std::vector<cni::Attachment>& keep);

/// What plugins found of attachments without a cache entry that can be read.
struct Unlisted {
  std::vector<cni::Runtime::Found> found = {};  ///< without that of `broken`
  std::vector<cni::Attachment> broken = {};     ///< that have a broken entry, and are not kept
};
/// seen: the cache. Adds to kept, if those that live are, the attachments with a broken entry:
/// nothing tells their namespace. Those stay out of which the plugins found something that no pod
/// has.
Unlisted unlisted_in(const cni::NetworkList& list, const cni::RuntimeOptions& options,
                     const cni::Cache::Listing& seen, Kept& kept);

/// "bridge: link 'veth1' of 0123456789ab (eth0)".
std::string text_of(const cni::Runtime::Found& one);

}  // namespace tool

#pragma once

#include <string>
#include <vector>

#include "cnitool/repair.h"
#include "cnitool/sightings.h"
#include "libcni/runtime/conflist.h"
#include "netlink/types/ip.h"

namespace tool {

/// An attachment that links show and the cache does not have, as after the loss of /var/lib/cni.
struct Unlisted {
  cni::AttachmentKey key;  ///< container_id is empty where nothing on the node says it whole
  std::string alias;       ///< of the link that shows it
  std::string host_veth;   ///< that link; empty: it is in the pod
  std::string netns;       ///< its path; empty: the namespace cannot be seen from here
  std::vector<netlink::Cidr> addresses;
};

/// An alias of a link in a pod, which root there can write, counts for a link that stands on one of
/// another namespace, and once for each network and namespace.
std::vector<Unlisted> unlisted_in(const Sightings& seen,
                                  const std::vector<cni::CachedAttachment>& cached);

/// Runtime::restore() of those whose network has a config, and addresses of an IPAM plugin.
std::vector<Repaired> restore_leases(const std::vector<Unlisted>& all,
                                     const cni::Networks& networks, const cni::Runtime& runtime,
                                     bool dry_run);

}  // namespace tool

#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netlink/types/ip.h"

/// Pods in the kernel, whatever the cache has.
namespace tool {

struct Sightings {
  /// Addresses in the namespaces of pods, with the name of their interface.
  std::set<std::pair<netlink::Ip, std::string>> addresses;

  bool has(const netlink::Ip& ip, const std::string& ifname) const;
};

/// Looks into the namespaces of /run/netns, and into those of processes that a link of the node
/// leads to: others may be of another node on the same kernel. What this process may not look into
/// is left out. \throws netlink::Error where the node's own links are unreadable.
Sightings look_at_namespaces();

}  // namespace tool

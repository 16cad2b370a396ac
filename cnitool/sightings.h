#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netlink/types/ip.h"

/// What the kernel shows of pods, whatever the cache knows.
namespace tool {

/// A link with the alias of an attachment (cni::OwnerTag), whose pod lives.
struct SeenLink {
  std::string name, alias;
  std::string netns;  ///< a path of the pod's namespace; empty: none was found
  /// A host veth: its alias is out of the pod's reach. Other links are in the pod, which can write
  /// any alias.
  bool on_node = false;
};

struct Sightings {
  std::vector<SeenLink> links;
  /// Addresses in the namespaces of pods, with the name of their interface.
  std::set<std::pair<netlink::Ip, std::string>> addresses;

  bool has(const netlink::Ip& ip, const std::string& ifname) const;
};

/// Looks into the namespaces of /run/netns, and into those of processes that a link of the node
/// leads to: others may be of another node on the same kernel. What this process may not look into
/// is left out. \throws netlink::Error where the node's own links are unreadable.
Sightings look_at_namespaces();

}  // namespace tool

#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libcni/plugin/life.h"
#include "libcni/runtime/cache.h"
#include "netlink/route/link.h"
#include "netlink/types/ip.h"

/// Pods in the kernel, whatever the cache has.
namespace tool {

/// A link in the namespace of a pod. Root in the pod can choose all of it but the index.
struct SeenLink {
  int index = 0;
  std::string name = {}, alias = {};
  std::vector<netlink::Cidr> addresses = {};
  bool has_parent_outside = false;  ///< it stands on a link of another namespace, as a macvlan
};

/// A namespace other than this process's. What its links have, root in the pod can choose.
struct SeenNamespace {
  std::string path = {};         ///< "/run/netns/web", or "/proc/812/ns/net" where it has no name
  std::optional<int> nsid = {};  ///< as in Link::peer_nsid; empty: no link of the node leads to it
  std::vector<SeenLink> links = {};
  /// Containers, and tags of attachments, that the node says it is of: by the cache and by host
  /// veths. Empty: nothing says it.
  std::set<std::string> owners = {};
  std::set<std::pair<netlink::Ip, std::string>> addresses = {};  ///< with the interface's name
  std::set<std::string> tags = {};                               ///< in aliases of links
};

struct Sightings {
  std::vector<SeenNamespace> namespaces = {};
  /// Of the node, with a peer in another namespace: the kernel removes both ends together.
  std::vector<netlink::Link> veths = {};
  /// A place where namespaces may be that cannot be seen from here; empty: none.
  std::string hidden = {};

  void add(netlink::Link veth);
  void add(SeenNamespace one);
  /// A sign of an attachment in the namespace of a process that no link of the node leads to.
  void add(const std::string& sign, const std::string& path) { unnamed_.emplace(sign, path); }

  bool has_veth(const std::string& tag) const { return veth_tags_.contains(tag); }
  /// Whether a namespace has an interface with the tag, or with the address. One that is another
  /// container's says nothing of this.
  bool has_tag(const std::string& container, const std::string& tag) const;
  bool has_sign(const std::string& sign) const { return unnamed_.contains(sign); }
  /// Whether the address is in such a namespace, which may be of another node on the same kernel.
  bool may_have(const netlink::Ip& ip) const { return has_sign(ip.str()); }
  bool has_address(const cni::AttachmentKey& key, const netlink::Ip& ip) const;
  /// The path of the namespace that the node says is the container's; empty: unknown.
  std::string path_of(const cni::AttachmentKey& key) const;

 private:
  std::set<std::string> veth_tags_;
  std::multimap<std::string, std::size_t> by_tag_;      // indexes of namespaces
  std::multimap<netlink::Ip, std::size_t> by_address_;  // the same
  std::map<std::string, std::string> unnamed_;          // paths, by signs
};

/// Looks at the veths of the node and into the namespaces of /run/netns, and into those of
/// processes that a link of the node leads to. Others may be of another node on the same kernel:
/// a pod is known by an address together with its MAC address, and by the tag of an interface that
/// stands on a link of the node.
/// What this process may not look into is left out.
Sightings look_at_pods(const std::vector<cni::CachedAttachment>& cached);

/// Whether the pod of an attachment in the cache lives: the interface is in its namespace, or the
/// node shows it elsewhere. An ADD that was interrupted is dead: where it goes on, the lock says
/// so.
cni::Life life_of(const cni::CachedAttachment& one, const Sightings& seen);

/// The same, where the namespaces were looked into before: what can come since is an interface at
/// its path, or a host veth that its result names. The time it takes does not depend on the number
/// of pods. \throws netlink::Error.
cni::Life life_now(const cni::CachedAttachment& one);

}  // namespace tool

#include "plugins/common/link/owned_links.h"

#include <map>
#include <memory>

#include "libcni/common/undo.h"
#include "plugins/common/link/host_veth.h"

namespace plugins {

cni::OwnerTag owner_of(const cni::Request& request) { return request.key().owner_tag(); }

namespace {

using netlink::Link;
using netlink::RouteSocket;

cni::Life life_of(RouteSocket& host, const Link& link) {
  const bool has_peer = link.peer_nsid && host.has_namespace(*link.peer_nsid);
  return has_peer ? cni::Life::kAlive : cni::Life::kDead;
}

// A thing of a whole container has a tag without an interface.
bool is_of_container(const Link& link, const cni::Leftover& one) {
  const std::string& id = one.container_id;
  return one.ifname.empty() && !id.empty() && link.alias.ends_with(cni::cat(", id: ", id));
}

/// Looks for host veths that live. All links are listed once, because a host veth that migration
/// gave its alias may have any name; one that was added since has the derived name.
class Veths {
 public:
  bool any_lives(const cni::Leftover& one) {
    if (!is_listed_) list();
    const auto [begin, end] = by_tag_.equal_range(one.tag);
    for (auto at = begin; at != end; ++at) {
      const auto now = host_.find(at->second);
      if (now && now->alias.starts_with(one.tag) && lives(*now)) return true;
    }
    for (const Link& link : host_veths_of(host_, one.tag)) {
      if (lives(link)) return true;
    }
    return one.ifname.empty() && any_lives_of_container(one);
  }

 private:
  void list() {
    for (const Link& link : host_.links_of_kind("veth")) {
      by_tag_.emplace(cni::OwnerTag::prefix_in(link.alias), link.index);
    }
    is_listed_ = true;
  }
  // The interface, and so the name, may be any.
  bool any_lives_of_container(const cni::Leftover& one) {
    for (const Link& link : host_.links_of_kind("veth")) {
      if (is_of_container(link, one) && lives(link)) return true;
    }
    return false;
  }
  bool lives(const Link& link) { return life_of(host_, link) == cni::Life::kAlive; }

  RouteSocket host_;
  bool is_listed_ = false;
  std::multimap<std::string, int> by_tag_;  // indexes
};

}  // namespace

void ask_host_veths(cni::Collect& collect) {
  if (!collect.removes_named()) return;
  collect.ask([veths = std::make_shared<Veths>()](const cni::Leftover& one) {
    return veths->any_lives(one);
  });
}

void collect_links(std::string_view kind, cni::Collect& collect) {
  RouteSocket host;
  cni::BestEffort each;
  for (const Link& link : host.links_of_kind(kind)) {
    // The kernel removes a veth together with its peer.
    const cni::Life life = collect.is_stale(link.alias) ? life_of(host, link) : cni::Life::kAlive;
    if (!collect.takes(cni::cat("link '", link.name, "'"), link.alias, life)) continue;
    each(cni::cat("remove '", link.name, "'"), [&] { host.send(netlink::remove_link(link)); });
  }
  each.finish();
}

}  // namespace plugins

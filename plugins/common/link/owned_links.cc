#include "plugins/common/link/owned_links.h"

#include "libcni/common/undo.h"

namespace plugins {

cni::OwnerTag owner_of(const cni::Request& request) {
  return {request.network, request.container_id, request.ifname};
}

namespace {

using netlink::Link;
using netlink::RouteSocket;

cni::Life life_of(RouteSocket& host, const Link& link) {
  const bool has_peer = link.peer_nsid && host.has_namespace(*link.peer_nsid);
  return has_peer ? cni::Life::kAlive : cni::Life::kDead;
}

// A thing of a whole container has a tag without an interface.
bool is_of(const Link& link, const cni::Leftover& one) {
  const std::string& id = one.container_id;
  return link.alias.starts_with(one.tag) ||
         (one.ifname.empty() && !id.empty() && link.alias.ends_with(cni::cat(", id: ", id)));
}

}  // namespace

void ask_host_veths(cni::Collect& collect) {
  if (!collect.removes_named()) return;
  collect.ask([](const cni::Leftover& one) {
    RouteSocket host;
    for (const Link& link : host.links_of_kind("veth")) {
      if (is_of(link, one) && life_of(host, link) == cni::Life::kAlive) return true;
    }
    return false;
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

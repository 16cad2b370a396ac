#include "plugins/common/link/owned_links.h"

#include "libcni/common/undo.h"

namespace plugins {

cni::OwnerTag owner_of(const cni::Request& request) {
  return {request.network, request.container_id, request.ifname};
}

void collect_links(std::string_view kind, cni::Collect& collect) {
  netlink::RouteSocket host;
  cni::BestEffort each;
  for (const netlink::Link& link : host.links_of_kind(kind)) {
    // The kernel removes a veth together with its peer.
    if (!collect.takes(cni::cat("link '", link.name, "'"), link.alias,
                       link.peer_nsid.has_value())) {
      continue;
    }
    each(cni::cat("remove '", link.name, "'"), [&] { host.send(netlink::remove_link(link)); });
  }
  each.finish();
}

}  // namespace plugins

#include "plugins/common/owned_links.h"

#include <algorithm>

#include "libcni/common/undo.h"

namespace plugins {

cni::OwnerTag owner_of(const cni::Request& request) {
  return {request.network, request.container_id, request.ifname};
}

void collect_links(const cni::Request& request, const std::vector<cni::Attachment>& valid,
                   std::string_view kind) {
  const std::string network = cni::OwnerTag(request.network, "", "").network_hash + '-';
  std::vector<std::string> kept;
  for (const cni::Attachment& one : valid) {
    kept.push_back(cni::OwnerTag(request.network, one.container_id, one.ifname).prefix());
  }
  netlink::RouteSocket host;
  cni::BestEffort each;
  for (const netlink::Link& link : host.links_of_kind(kind)) {
    if (!link.alias.starts_with(network)) continue;
    if (std::any_of(kept.begin(), kept.end(),
                    [&](const std::string& prefix) { return link.alias.starts_with(prefix); })) {
      continue;
    }
    each(cni::cat("remove '", link.name, "'"), [&] { host.send(netlink::remove_link(link)); });
  }
  each.finish();
}

}  // namespace plugins

#pragma once

#include <vector>

#include "netlink/nf/socket.h"
#include "netlink/route/socket.h"
#include "plugins/portmap/mapping.h"

/// Connections that conntrack remembers from before. UDP has no end that it could see, and while a
/// client goes on sending, its packets go where the first one went. Only entries of exactly these
/// mappings are touched; failures are noted and leave nothing but slowness.
namespace portmap {

/// After ADD: what was sent to the ports before went to the node, or to a pod that had them.
void forget_before(netlink::nf::NfSocket& socket, netlink::RouteSocket& host,
                   const std::vector<Claim>& claims) noexcept;
/// After DEL, or when claims were taken: what is redirected to the claims' targets.
void forget_redirected(netlink::nf::NfSocket& socket, const std::vector<Claim>& claims) noexcept;

}  // namespace portmap

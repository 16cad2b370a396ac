#pragma once

#include <vector>

#include "netlink/nf/socket.h"
#include "netlink/route/socket.h"
#include "plugins/portmap/mapping.h"

/// Deletes stale conntrack entries. A UDP flow has no end, so that a client that never pauses is
/// sent to the target of its first packet. Only entries of exactly these ports are deleted. A
/// failure is logged only, because stale entries expire.
namespace portmap {

/// After ADD: entries of flows to the ports that lead to the node or to a previous port owner.
void flush_stale(netlink::nf::NfSocket& socket, netlink::RouteSocket& host,
                 const std::vector<Claim>& claims) noexcept;
/// After DEL, and after ADD replaced port owners: entries that lead to the claims' targets.
void flush_redirected(netlink::nf::NfSocket& socket, const std::vector<Claim>& claims) noexcept;

}  // namespace portmap

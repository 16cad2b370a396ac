#pragma once

#include "libcni/config/result.h"
#include "netlink/netns.h"
#include "netlink/route/socket.h"

namespace plugins {

/// A pod's interface: its link, the socket and the namespace it is in.
struct PodInterface {
  netlink::RouteSocket& pod;
  const netlink::NetNs& ns;
  netlink::Link link;
};

struct AddressOptions {
  /// Duplicate address detection: off for a link that nobody else can share, so that an IPv6
  /// address is usable at once.
  bool enable_dad = false;
  /// Whether the pod believes router advertisements. Where the node is its gateway nobody but
  /// another pod would send any (CVE-2020-10749).
  bool accept_ra = true;
};

/// Gives the interface the addresses and routes of result that are meant for it (those with an
/// interface index; it must be this interface's entry), and sets it up. Addresses come first, so
/// that the kernel announces them when the link comes up. A route without gateway gets the first
/// gateway of its family, unless its scope says that it needs none.
/// \throws netlink::Error; cni::Error for a bad index or an address found elsewhere (enable_dad).
void configure_interface(const PodInterface& interface, const cni::Result& result,
                         const AddressOptions& options);

/// Makes the kernel tell the neighbours (gratuitous ARP, unsolicited neighbour advertisement) where
/// the addresses of the interface are now. Of use only once its frames are forwarded.
void announce(const PodInterface& interface);

/// CHECK: the interface has result's addresses and the namespace its routes.
/// \throws cni::Error naming the first one that is missing.
void check_interface(const PodInterface& interface, const cni::Result& result);

}  // namespace plugins

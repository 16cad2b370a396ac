#pragma once

#include <optional>

#include "libcni/common/undo.h"
#include "libcni/plugin/request.h"
#include "plugins/common/link/namespaces.h"

/// The veth pair of an attachment, as bridge and ptp create it. How it is found later: host_veth.h.
namespace plugins {

struct VethPair {
  netlink::Link outside;  ///< the host veth
  netlink::Link inside;   ///< the container interface, CNI_IFNAME
};

struct NewVethPair {
  int master = 0;  ///< index of the bridge that the host veth becomes a port of; 0 is none
  std::optional<netlink::Mac> mac = {};  ///< of the container interface; absent: random
  unsigned mtu = 0;                      ///< bytes, of both; 0 is the kernel's default
};

/// Creates the pair in one message, both interfaces down, router advertisements disabled on the
/// host veth. Its undo step is registered before. \throws cni::Error if the pod has an interface
/// with that name; netlink::Error.
VethPair create_veth_pair(Namespaces& sides, const NewVethPair& wanted, cni::Undo& undo);

/// For what asks IPAM before it creates the pair. \throws cni::Error if the pod has an interface
/// with that name, or that of an earlier ADD of the attachment.
void require_no_interface(Namespaces& sides);

/// Disables router advertisements on a link of this namespace; a failure is noted.
void ignore_router_advertisements(const netlink::Link& link);

/// Waits at most 2.5 seconds until the link is operational, so that what is sent to it is not
/// dropped. Returns the last state.
netlink::OperState wait_until_up(netlink::RouteSocket& where, const netlink::Link& link);

/// Removes the host veth of a request's attachment, and with it the container interface. See
/// removable_host_veths(); none is fine. \throws netlink::Error.
void remove_veth_pair(const cni::Request& request);

}  // namespace plugins

#pragma once

#include "netlink/nf/socket.h"
#include "plugins/portmap/attachment.h"

namespace portmap::iptables {

/// Makes the folder of claims, with those of pods that live, as the kernel's rules say: the rules
/// outlive /run/cni. It lists whole tables, and the folder says that no later ADD has to. Pods
/// whose plugin makes no host veth with an alias are not seen. \throws cni::Error where rules of a
/// pod that lives cannot be read.
void restore_claims(netlink::nf::NfSocket* socket, const StateDir& state);

}  // namespace portmap::iptables

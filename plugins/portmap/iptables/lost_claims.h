#pragma once

#include "netlink/nf/socket.h"
#include "plugins/portmap/attachment.h"
#include "plugins/portmap/backend.h"

namespace portmap::iptables {

/// Makes the folder of claims, with those of pods that live, as the kernel's rules say: the rules
/// outlive /run/cni. It lists whole tables, and the folder says that no later ADD has to. Pods
/// whose plugin makes no host veth with an alias are not seen. \throws cni::Error where rules of a
/// pod that lives cannot be read.
void restore_claims(netlink::nf::NfSocket* socket, const StateDir& state);

/// Removes the rules of these ports from the chains of containers whose state files were lost: they
/// would precede those of the next owner. What else the containers have stays. \throws cni::Error.
void release_lost(const Context& context, const Lost& lost);

}  // namespace portmap::iptables

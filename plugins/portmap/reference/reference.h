#pragma once

#include <string>

#include "netlink/nf/socket.h"

/// The rules of the reference plugin's backend nftables (1.6 to 1.9), in tables ip and
/// ip6 cni_hostport, with the container ID as comment. Its iptables chains have the names of ours.
namespace portmap::reference {

/// Removes the container's rules.
void remove(netlink::nf::NfSocket& socket, const std::string& container_id);

}  // namespace portmap::reference

#pragma once

#include <string>

#include "netlink/nf/socket.h"
#include "plugins/portmap/attachment.h"

/// The rules of the reference plugin's backend nftables (1.6 to 1.9), in tables ip and
/// ip6 cni_hostport, with the container ID as comment. Its iptables chains have the names of ours.
namespace portmap::reference {

/// Removes the container's rules.
void remove(netlink::nf::NfSocket& socket, const std::string& container_id);

/// The same for the rules that lead to the attachment's addresses: the container may have others,
/// of another network. With the last rules of pods the table is removed.
void remove(netlink::nf::NfSocket& socket, const Attachment& attachment);
bool has_some(netlink::nf::NfSocket& socket, const Attachment& attachment);
/// Whether they are as many as replace() adds: what CHECK of the reference plugin compares.
bool has_all(netlink::nf::NfSocket& socket, const Attachment& attachment);

/// Replaces these rules in one transaction, by `nft`.
/// \throws cni::Error(kInvalidConfig) for options that the reference plugin ignores there.
void replace(netlink::nf::NfSocket& socket, const Attachment& attachment);

}  // namespace portmap::reference

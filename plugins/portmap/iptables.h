#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/portmap/conf.h"
#include "plugins/portmap/record.h"

/// The iptables backend: the reference's chains and rules, added and removed by one
/// iptables-restore per family. The caller holds the lock of the records.
namespace portmap::iptables {

/// Adds the rules of the attachment, in place of what its container and network have already; pod
/// has the addresses with their prefixes, which -s matches. All of a family or nothing of it.
/// \throws cni::Error with the tool's message; kTryAgainLater where another tool holds its lock.
void add(netlink::nf::NfSocket* socket, const Attachment& attachment, const PodAddresses& pod);

/// Removes what either iptables has for the container and network, also what the reference made;
/// with nothing there it is cheap and runs nothing. socket is null where the kernel has no
/// nfnetlink. \throws cni::Error listing what could not be removed.
void remove(netlink::nf::NfSocket* socket, const Owner& owner);

/// Containers with rules for the network (from the comments of CNI-HOSTPORT-DNAT), for GC; their
/// ifname is empty.
std::vector<Owner> owners(netlink::nf::NfSocket* socket, const std::string& network);

/// What is not there of what add() makes, named as people would look for it; nothing if all is.
std::optional<std::string> missing(netlink::nf::NfSocket* socket, const Attachment& attachment,
                                   const PodAddresses& pod);

/// The same of an attachment without a record, which the reference may have made: then it has
/// neither exceptions nor a guard, and each entry of a protocol names all ports of mappings.
std::optional<std::string> missing_unrecorded(netlink::nf::NfSocket* socket,
                                              const Attachment& attachment,
                                              const std::vector<Mapping>& mappings);

/// Whether either iptables has a chain for the container and network.
bool has_chain(netlink::nf::NfSocket* socket, const Owner& owner);

/// What the node lacks for this backend; nothing if it is usable.
std::optional<std::string> unusable();

}  // namespace portmap::iptables

/// What the nftables backend of the reference (1.6 to 1.9) leaves: rules in tables ip and ip6
/// cni_hostport whose comment is the container's ID.
namespace portmap::reference_nft {

/// Adds to batch the removal of the container's rules.
void plan_remove(netlink::nf::NfSocket& socket, const std::string& container_id,
                 netlink::nf::Batch& batch);

}  // namespace portmap::reference_nft

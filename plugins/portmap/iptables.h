#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/portmap/conf.h"
#include "plugins/portmap/state.h"

/// The iptables backend: the reference plugin's chains and rules, added by one iptables-restore per
/// family. The caller holds the lock of the state files.
namespace portmap::iptables {

/// Adds the rules of the attachment and removes those that its container and network have.
/// \throws cni::Error with the message of iptables-restore;
/// kTryAgainLater if another program holds the xtables lock.
void add(netlink::nf::NfSocket* socket, const AttachmentState& attachment);

/// Removes the rules of the container and network from both variants of iptables, also those of the
/// reference plugin. Without rules it runs no program. socket is null if the kernel has no
/// nfnetlink. \throws cni::Error, which lists what could not be removed.
void remove(netlink::nf::NfSocket* socket, const Owner& owner);

/// Containers with rules for the network (from the comments of CNI-HOSTPORT-DNAT), for GC; their
/// ifname is empty.
std::vector<Owner> owners(netlink::nf::NfSocket* socket, const std::string& network);

/// The first difference from what add() adds; nullopt without one.
std::optional<std::string> missing(netlink::nf::NfSocket* socket,
                                   const AttachmentState& attachment);

/// The same for an attachment without a state file. Rules of the reference plugin have neither
/// exceptions nor a guard, and each entry of a protocol names all ports of mappings.
std::optional<std::string> missing_unrecorded(netlink::nf::NfSocket* socket,
                                              const AttachmentState& attachment,
                                              const std::vector<Mapping>& mappings);

/// Whether a variant of iptables has a chain for the container and network.
bool has_chain(netlink::nf::NfSocket* socket, const Owner& owner);

/// Whether kube-proxy runs in IPVS mode: Services' addresses are local addresses of the node, and
/// its rules in iptables' table nat exempt packets to them from the rules behind. Chains of another
/// table are not exempted, and no expression of nf_tables gives the link of a local address.
bool exempts_services(netlink::nf::NfSocket* socket);

/// What the node lacks for this backend; nullopt if it is usable.
std::optional<std::string> unusable();

}  // namespace portmap::iptables

/// Rules of the reference plugin's nftables backend (1.6 to 1.9): in tables ip and ip6
/// cni_hostport, with the container ID as comment.
namespace portmap::reference_nft {

/// Adds to batch the removal of the container's rules.
void plan_remove(netlink::nf::NfSocket& socket, const std::string& container_id,
                 netlink::nf::Batch& batch);

}  // namespace portmap::reference_nft

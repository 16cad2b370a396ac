#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/firewall/policy.h"

/// The backend `nftables`: an element for each address of a pod in the tables of table.h. What of
/// it the other backends use too are the policies.
namespace firewall::nft {

/// Adds what is missing, in one transaction, with the policy if there is one. An address of another
/// attachment is taken over: the last ADD owns it.
void add(netlink::nf::NfSocket& socket, const Attachment& attachment,
         const std::string& admin_chain, const std::optional<LinkPolicy>& policy);

/// The policy alone, for the other backends.
void set_policy(netlink::nf::NfSocket& socket, const std::string& admin_chain,
                const LinkPolicy& policy);

/// Removes the attachment's elements, and the policy of a link of its own. False: the addresses of
/// the attachment were not all its own, so that another backend may have them.
bool remove(netlink::nf::NfSocket& socket, const Attachment& attachment);

/// Removes what all attachments of the network have but the valid ones.
void remove_stale(netlink::nf::NfSocket& socket, const std::string& network,
                  const std::vector<cni::Attachment>& valid);

/// The first difference from what add() adds; nothing without one.
std::optional<std::string> missing(netlink::nf::NfSocket& socket, const Attachment& attachment,
                                   const std::string& admin_chain);
/// The same of set_policy().
std::optional<std::string> missing_policy(netlink::nf::NfSocket& socket,
                                          const std::string& admin_chain, const LinkPolicy& policy);

/// Whether the attachment has an address here.
bool has(netlink::nf::NfSocket& socket, const Attachment& attachment);

}  // namespace firewall::nft

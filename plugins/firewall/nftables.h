#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libcni/plugin/collect.h"
#include "netlink/nf/socket.h"
#include "plugins/firewall/policy.h"

/// The backend `nftables`: an element for each address of a pod in the tables of table.h. What of
/// it the other backends use too are the policies.
namespace firewall::nft {

/// Adds what is missing, in one transaction, with the policies of its links. An address of another
/// attachment is taken over: the last ADD owns it.
void add(netlink::nf::NfSocket& socket, const Attachment& attachment,
         const std::string& admin_chain, const std::vector<LinkPolicy>& policies);

/// The policies alone, for the other backends.
void set_policies(netlink::nf::NfSocket& socket, const std::string& admin_chain,
                  const std::vector<LinkPolicy>& policies);

/// Removes the attachment's elements, and the policy of a link of its own. False: the addresses of
/// the attachment were not all its own, so that another backend may have them.
bool remove(netlink::nf::NfSocket& socket, const Attachment& attachment);

/// Removes what attachments have that are not valid.
void remove_stale(netlink::nf::NfSocket& socket, const std::string& network, cni::Collect& collect);

/// The first difference from what add() adds; nothing without one.
std::optional<std::string> missing(netlink::nf::NfSocket& socket, const Attachment& attachment,
                                   const std::string& admin_chain);
/// The same of set_policies().
std::optional<std::string> missing_policies(netlink::nf::NfSocket& socket,
                                            const std::string& admin_chain,
                                            const std::vector<LinkPolicy>& policies);

/// Whether the attachment has an address here.
bool has(netlink::nf::NfSocket& socket, const Attachment& attachment);

}  // namespace firewall::nft

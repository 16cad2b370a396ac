#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libcni/plugin/collect.h"
#include "netlink/nf/socket.h"
#include "plugins/common/firewall/masquerade.h"

/// The nftables form of masquerading, a table of our own:
///
///   table inet patchbay_masquerade
///     map pods4, pods6    pod address : goto the chain of its subnet; the comment is cni::OwnerTag
///     chain postrouting   looks the source address up, once per connection
///     chain masq_SUBNET   masquerades what leaves the subnet and is no multicast
///
/// Networks with exceptions (Masquerade::except) have chains of their own, each with a set:
///
///     set except_SUBNET_HASH    the exceptions of the family; HASH is of these
///     chain masq_SUBNET_HASH    the same for what is not in the set either
///
/// They go with the last element that leads there.
///
/// Earlier versions and the reference plugin had one rule per address in chain masq_checks of table
/// inet cni_plugins_masquerade. These rules count until their pod goes, and are removed with it.
namespace plugins::nft {

/// Whether the kernel can do it: table, maps, chains and rules.
bool can_masquerade(netlink::nf::NfSocket& socket);

/// Adds the missing parts. An element of another attachment is replaced: the last ADD owns the
/// address. With only_if_able false is returned, and nothing changed, if the kernel lacks a part.
bool add(netlink::nf::NfSocket& socket, const Masquerade& masquerade, bool only_if_able = false);

/// Chain masq_checks of earlier versions and the reference plugin.
netlink::nf::ChainId earlier_checks();

/// Adds to batch the removal of the attachment's elements: by the addresses, if they are all from
/// the result and the attachment's, else of all that a listing of the maps shows.
void plan_remove(netlink::nf::NfSocket& socket, const Masquerade& masquerade,
                 netlink::nf::Batch& batch);
/// The same for its rules in earlier_checks().
void plan_remove_earlier(netlink::nf::NfSocket& socket, const Masquerade& masquerade,
                         netlink::nf::Batch& batch);
/// Adds a rule in earlier_checks() for each address, by `nft`, as the reference plugin does.
void add_earlier(netlink::nf::NfSocket& socket, const Masquerade& masquerade);
/// Whether the attachment has rules there; all: for each address, and a base chain leads there.
bool has_earlier(netlink::nf::NfSocket& socket, const Masquerade& masquerade, bool all);
/// Adds to batch the removal of chains with exceptions to which no element leads. Another ADD that
/// needs one meanwhile adds it again.
void plan_remove_unused(netlink::nf::NfSocket& socket, netlink::nf::Batch& batch);
/// Adds to batch the removal of what attachments have that are not valid.
void plan_gc(netlink::nf::NfSocket& socket, cni::Collect& collect, netlink::nf::Batch& batch);

/// Whether the attachment owns an element.
bool has_elements(netlink::nf::NfSocket& socket, const Masquerade& masquerade);
/// The first missing object of those that add() makes; empty: none is missing.
std::optional<std::string> missing_elements(netlink::nf::NfSocket& socket,
                                            const Masquerade& masquerade);
/// The same; empty also if none is missing of those that an earlier version made.
std::optional<std::string> missing(netlink::nf::NfSocket& socket, const Masquerade& masquerade);

}  // namespace plugins::nft

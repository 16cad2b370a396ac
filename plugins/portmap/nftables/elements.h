#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/portmap/backend.h"

/// The nftables backend: the ports of a pod are elements of maps, so that the number of pods
/// changes neither the cost of ADD and DEL nor that of a packet.
///
///   map ports             protocol . port            -> pod address . port
///   map ports_hostip      address . protocol . port  -> pod address . port
///   set masq_from         first . last address of a subnet . protocol . port
///                                                    whose traffic to the port is masqueraded
///   set masq_from_hostip  address . first . last address of a subnet . protocol . port
///
/// The comment of an element names its owner: Attachment::comment().
namespace portmap::nft {

/// The sets and maps of a table.
std::vector<netlink::nf::Set> sets_of(Family family, const std::string& table);

/// Elements by set, in the order of first use.
using Groups = std::vector<std::pair<netlink::nf::SetId, std::vector<netlink::nf::Element>>>;
/// The attachment's elements for these of its claims.
Groups elements_of(const Attachment& attachment, const std::vector<Claim>& claims);

/// Sources to masquerade, each an element of masq_from for each port.
std::vector<Cidr> masqueraded(const Attachment& attachment, Family family);
/// The prefix lengths of the subnets in the sets masq_from of a table, but for 127.0.0.0/8: it
/// dumps them.
std::set<unsigned> prefixes_of(netlink::nf::NfSocket& socket, Family family,
                               const std::string& table);

/// The tags of all owners of elements, in all tables: it dumps them.
std::set<Tag> all_owners(netlink::nf::NfSocket& socket);

}  // namespace portmap::nft

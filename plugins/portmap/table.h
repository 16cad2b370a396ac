#pragma once

#include <string>
#include <vector>

#include "netlink/nf/batch.h"
#include "netlink/nf/socket.h"
#include "plugins/portmap/record.h"

/// The nf_tables objects of the nftables backend: a table per family, all pods' ports in its maps.
///
///   map ports             protocol . port            -> pod address . port
///   map ports_hostip      address . protocol . port  -> pod address . port
///   set masq_from         first . last address of a subnet . protocol . port
///                                                    whose traffic to the port is masqueraded
///   set masq_from_hostip  address . first . last address of a subnet . protocol . port
///   set masq_all          protocol . port            masqueraded wherever it comes from
///   set masq_all_hostip   address . protocol . port
///
/// Traffic to a local address (fib) is looked up once per connection, whatever the number of pods;
/// other traffic is never touched (CVE-2025-67499). Networks with conditions or a mark of their own
/// have tables of their own.
///
/// Older versions masqueraded by the link that leads to the pod, in sets hairpin (link . protocol .
/// port) and hairpin_hostip. Their elements stay until their pods go, and the rules with them.
namespace portmap::nft {

/// What all tables' names start with; the default options' table is called just that.
inline constexpr const char* kTablePrefix = "patchbay_hostport";
std::string table_of(const Options& options);

netlink::nf::TableFamily table_family(Family family);

/// Which of the sets.
enum class Kind { kPorts, kMasqFrom, kMasqAll, kHairpin };
netlink::nf::SetId set_of(Kind kind, const Key& key, const std::string& table);
/// All sets that a table may have.
std::vector<netlink::nf::SetId> all_sets(Family family, const std::string& table);

/// Keys and data of elements; link is the name of one.
netlink::nf::Bytes ports_key(const Key& key);
netlink::nf::Bytes masq_from_key(const Key& key, const Cidr& subnet);
netlink::nf::Bytes hairpin_key(const Key& key, const std::string& link);
netlink::nf::Bytes ports_data(const Claim& claim);

/// Adds to batch the table as it is without pods: its sets and chains, and all rules but those with
/// the options' conditions. To be tried.
void put_skeleton(Family family, const Options& options, netlink::nf::Batch& batch);
/// What of the table is not as ensure() makes it; empty if all is.
std::string flaw_in(netlink::nf::NfSocket& socket, Family family, const Attachment& attachment);

/// Makes the table that the attachment needs, or makes it whole again; elements stay. Without
/// conditions this only adds to batch, else it needs transactions of its own: nft
/// compiles them. \throws cni::Error(kInvalidConfig) with nft's words about a condition.
void ensure(netlink::nf::NfSocket& socket, Family family, const Attachment& attachment,
            netlink::nf::Batch& batch);

}  // namespace portmap::nft

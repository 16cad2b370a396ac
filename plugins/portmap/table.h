#pragma once

#include <string>
#include <vector>

#include "netlink/nf/batch.h"
#include "netlink/nf/socket.h"
#include "plugins/portmap/state.h"

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
/// other traffic is never redirected (CVE-2025-67499). Networks with conditions or
/// another mark have separate tables.
///
/// Earlier versions masqueraded by the link that leads to the pod, in sets hairpin (link . protocol
/// . port) and hairpin_hostip. Elements and rules stay until DEL of their pods.
namespace portmap::nft {

/// Prefix of all table names, and the name of the table for default options.
inline constexpr const char* kTablePrefix = "patchbay_hostport";
std::string table_of(const Options& options);

netlink::nf::TableFamily table_family(Family family);

/// Which of the sets.
enum class Kind { kPorts, kMasqFrom, kMasqAll, kHairpin };
netlink::nf::SetId set_of(Kind kind, const Key& key, const std::string& table);
/// All sets that a table may have.
std::vector<netlink::nf::SetId> all_sets(Family family, const std::string& table);

/// Keys and data of elements.
netlink::nf::Bytes ports_key(const Key& key);
netlink::nf::Bytes masq_from_key(const Key& key, const Cidr& subnet);
netlink::nf::Bytes hairpin_key(const Key& key, const std::string& link);
netlink::nf::Bytes ports_data(const Claim& claim);

/// Adds to batch an empty table: sets, chains, and all rules except those with conditions. For
/// usable(), which only validates it.
void put_table(Family family, const Options& options, netlink::nf::Batch& batch);
/// The first difference of the table from what ensure() adds; empty without one.
std::string flaw_in(netlink::nf::NfSocket& socket, Family family,
                    const AttachmentState& attachment);

/// What tells ensure() that a table is as it should be: its Summary, or all rules. Tables with
/// conditions have no summary.
enum class Compare { kSummary, kRules };
/// Adds to batch what the table lacks that the attachment needs; elements stay. With conditions the
/// jumps behind them are replaced at once, by nft: other pods keep their ports whatever fails.
/// \throws cni::Error(kInvalidConfig) with nft's message about a condition.
void ensure(netlink::nf::NfSocket& socket, Family family, const AttachmentState& attachment,
            Compare compare, netlink::nf::Batch& batch);

}  // namespace portmap::nft

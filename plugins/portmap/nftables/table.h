#pragma once

#include <string>

#include "netlink/nf/socket.h"
#include "plugins/portmap/attachment.h"

/// The tables of the nftables backend: one per family, with the ports of all pods in its maps.
/// Traffic to a local address (fib) is looked up once per connection, whatever the number of pods;
/// other traffic is never redirected (CVE-2025-67499). Networks with conditions or another mark
/// have separate tables.
namespace portmap::nft {

/// names::kHostPortTable; with conditions or another mark that prefix and a hash.
std::string table_of(const Options& options);
netlink::nf::TableFamily table_family(Family family);

/// Whether the kernel has NAT for nf_tables. The first call on a node takes 10 ms.
bool usable(netlink::nf::NfSocket& socket);

/// \throws cni::Error(kPluginUnavailable) if nft(8), which compiles conditions, is not installed.
void require_nft();

/// Adds to batch what the table lacks that the attachment needs; elements stay. With conditions nft
/// adds the rule that has them, in one transaction with the removal of that rule: other pods keep
/// their ports whatever fails.
/// \throws cni::Error(kInvalidConfig) with nft's message about a condition.
void ensure_table(netlink::nf::NfSocket& socket, Family family, const Attachment& attachment,
                  netlink::nf::Batch& batch);

/// The first difference of the table from what ensure_table() adds; empty without one.
std::string flaw_in(netlink::nf::NfSocket& socket, Family family, const Attachment& attachment);

}  // namespace portmap::nft

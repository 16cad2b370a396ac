#pragma once

#include <string>
#include <string_view>

#include "netlink/types/ip.h"

/// Whether the legacy iptables has something, asked without running iptables-save.
namespace netlink::nf {

/// Whether the table ("nat", "filter") is in use; to ask does not create it.
bool legacy_in_use(Family family, const std::string& table);
/// The names of those that are: "filter, nat".
std::string legacy_tables(Family family);

/// Whether the text is anywhere in the table, as the name of each chain is that users made: the
/// bytes of IPT_SO_GET_ENTRIES (linux/netfilter_ipv4/ip_tables.h) are searched, not decoded. False
/// where the table is not in use. This takes CAP_NET_RAW. \throws Error.
bool legacy_mentions(Family family, const std::string& table, std::string_view text);

}  // namespace netlink::nf

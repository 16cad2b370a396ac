#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/nf/batch.h"
#include "netlink/types/ip.h"

/// The tables of the legacy iptables, read from the kernel without running iptables.
namespace plugins {

/// Rules are given as iptables-nft would have written them: addresses, links and protocols as
/// nf_tables' own expressions, the rest as netlink::nf::Xt.
struct LegacyTable {
  std::vector<std::string> chains;       ///< the users'
  std::vector<netlink::nf::Rule> rules;  ///< in order, without the chains' policies

  bool has(const std::string& chain) const;
  std::vector<netlink::nf::Rule> of(const std::string& chain) const;
};

/// Nothing where the table ("nat", "filter") is not in use; to ask does not create it.
/// \throws netlink::Error.
std::optional<LegacyTable> read_legacy(netlink::Family family, const std::string& table);

/// Asked before anything is changed by who is going to read them; what is "verb 'object'".
/// \throws cni::Error where there are rules for NAT that this process may not read: that takes
/// CAP_NET_RAW.
void require_readable_legacy(std::string_view what);

/// What IPT_SO_GET_ENTRIES gave: entries one after the other, and where the built-in chains start.
struct LegacyEntries {
  std::vector<unsigned char> bytes;
  std::map<std::size_t, std::string> heads;
};
/// Never trusts an offset.
LegacyTable decode_legacy(netlink::Family family, const std::string& table,
                          const LegacyEntries& entries);

}  // namespace plugins

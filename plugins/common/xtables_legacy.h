#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/types/ip.h"

/// The nat table of the legacy iptables, read from the kernel without running iptables.
namespace plugins {

struct LegacyRule {
  std::string chain;
  std::optional<netlink::Cidr> source, destination;  ///< absent: any, or something not plain
  std::string target;                                ///< a chain, or "ACCEPT", "MASQUERADE", ...
  std::string comment;
};

/// The rules in order; a user's chain without rules is not seen but in chains.
struct LegacyNat {
  std::vector<std::string> chains;
  std::vector<LegacyRule> rules;
};

/// Nothing where the table is not in use; to ask does not create it.
/// \throws netlink::Error.
std::optional<LegacyNat> read_legacy_nat(netlink::Family family);

/// Reads what IPT_SO_GET_ENTRIES gave: entries one after the other. Never trusts an offset.
LegacyNat decode_legacy_nat(netlink::Family family, const std::vector<unsigned char>& entries,
                            std::size_t postrouting);

}  // namespace plugins

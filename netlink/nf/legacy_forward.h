#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/types/ip.h"

/// The legacy iptables, as far as it decides over what the node forwards and what has NAT.
namespace netlink::nf {

/// The built-in chain FORWARD of the table filter, or POSTROUTING of the table nat.
struct LegacyForward {
  struct Rule {
    std::string in, out;     ///< names of links; empty: any
    bool is_narrow = false;  ///< it looks at more than that
    bool accepts = false;
    bool returns = false;
    std::optional<Cidr> source = {};  ///< any: of length 0; nothing for what is no such match
  };
  bool drops = false;  ///< its policy
  std::vector<Rule> rules;
};

/// What IPT_SO_GET_ENTRIES gave of the table, and where in it the chain is.
struct ForwardEntries {
  std::vector<unsigned char> bytes;
  std::size_t first = 0;
  std::size_t policy = 0;  ///< its last entry
};
/// Never trusts an offset.
LegacyForward decode_legacy_forward(Family family, const ForwardEntries& entries);

/// Nothing where the table is not in use; to ask does not create it. \throws Error.
std::optional<LegacyForward> read_legacy_forward(Family family);
std::optional<LegacyForward> read_legacy_postrouting(Family family);

/// Whether the legacy table ("nat") has a rule. \throws Error.
bool has_legacy_rules(Family family, const std::string& table);

}  // namespace netlink::nf

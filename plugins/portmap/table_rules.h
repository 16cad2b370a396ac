#pragma once

#include <optional>
#include <set>
#include <vector>

#include "netlink/nf/batch.h"
#include "plugins/portmap/record.h"

/// The chains of the nftables backend's tables (see table.h), and the rules in them.
namespace portmap::nft {

inline bool v4(Family family) { return family == Family::kIpv4; }

/// The chain that looks up the ports.
inline constexpr const char* kHostports = "hostports";

/// What the rules of a table depend on.
struct Layout {
  Family family = Family::kIpv4;
  const Options& options;
  /// Of the subnets in the sets masq_from: a rule for each length, of which a node has one or two,
  /// looks up the subnet of that length that the source is in.
  std::set<unsigned> prefixes = {};
  /// There are the sets of an older version, which masqueraded by link, and rules that ask them.
  bool by_link = false;
};

struct StaticChain {
  const char* name;
  std::optional<netlink::nf::Hook> hook;
  std::vector<netlink::nf::Exprs> rules;
  bool jumps = false;  ///< ends with a jump to kHostports, behind the conditions
};

std::vector<StaticChain> chains_of(const Layout& layout);

/// What the rules of a table, as the kernel lists them, were made for.
Layout layout_in(const std::vector<netlink::nf::Bytes>& rules, Family family,
                 const Options& options);

}  // namespace portmap::nft

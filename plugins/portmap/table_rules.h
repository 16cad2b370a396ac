#pragma once

#include <optional>
#include <set>
#include <vector>

#include "netlink/nf/batch.h"
#include "plugins/portmap/state.h"

/// The chains of the nftables backend's tables (see table.h), and the rules in them.
namespace portmap::nft {

inline bool v4(Family family) { return family == Family::kIpv4; }

/// The chain that looks up the ports.
inline constexpr const char* kHostports = "hostports";

/// What determines the rules of a table.
struct Layout {
  Family family = Family::kIpv4;
  const Options& options;
  /// Prefix lengths of the subnets in the sets masq_from, usually one or two. One rule for each
  /// length looks up the source's subnet of that length.
  std::set<unsigned> prefixes = {};
  /// The table has the sets hairpin of earlier versions, and rules that look them up.
  bool by_link = false;
};

struct StaticChain {
  const char* name;
  std::optional<netlink::nf::Hook> hook;
  std::vector<netlink::nf::Exprs> rules;
  bool jumps = false;  ///< ends with a jump to kHostports, after the conditions
};

std::vector<StaticChain> chains_of(const Layout& layout);

/// The layout of the rules that the kernel dumped.
Layout layout_in(const std::vector<netlink::nf::Rule>& rules, Family family,
                 const Options& options);

}  // namespace portmap::nft

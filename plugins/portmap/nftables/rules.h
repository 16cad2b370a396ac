#pragma once

#include <set>
#include <string>
#include <vector>

#include "netlink/nf/batch.h"
#include "plugins/portmap/attachment.h"

/// The chains of the nftables backend's tables (see table.h), and the rules in them.
namespace portmap::nft {

/// The chain that looks up the ports.
inline constexpr const char* kHostports = "hostports";
/// In tables with conditions: its rule, which nft compiles, jumps to kHostports behind them.
inline constexpr const char* kConditions = "conditions";

/// The options that determine the rules of a table.
struct Layout {
  Family family = Family::kIpv4;
  const Options& options;
  /// Prefix lengths of the subnets in the sets masq_from, usually one or two. One rule for each
  /// length looks up the source's subnet of that length; its comment is "/LENGTH".
  std::set<unsigned> prefixes = {};

  bool has_conditions() const { return !options.conditions(family).empty(); }
};

/// A chain with its rules.
struct TableChain {
  netlink::nf::Chain chain;
  std::vector<netlink::nf::Rule> rules = {};
  void add(netlink::nf::Exprs exprs, std::string comment = {}) {
    rules.push_back({chain.id, std::move(exprs), std::move(comment)});
  }
};

/// All but kConditions.
std::vector<TableChain> chains_of(const Layout& layout);

/// The prefix lengths for which a dumped table has rules, by their comments.
std::set<unsigned> prefixes_in(const std::vector<netlink::nf::Bytes>& rules, Family family);

}  // namespace portmap::nft

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/nf/batch.h"
#include "plugins/portmap/state.h"

/// The chains of the nftables backend's tables (see table.h), and the rules in them.
namespace portmap::nft {

inline bool v4(Family family) { return family == Family::kIpv4; }

/// The chain that looks up the ports, and the one whose rule masquerades.
inline constexpr const char* kHostports = "hostports";
inline constexpr const char* kPostrouting = "postrouting";

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

/// What the first ADD of a pod compares, instead of the rules of a table without conditions: the
/// comment of the masquerading rule. That takes a quarter of the time that all rules take. It shows
/// each rule that was removed or added, but not one that a person has replaced by another one.
///
///   rules 1 /24 guard 2 hostports 8 output 2 prerouting 3
struct Summary {
  std::set<unsigned> prefixes;                ///< those of the layout
  std::map<std::string, std::uint32_t> uses;  ///< NfSocket::uses_of() each other chain

  explicit Summary(const Layout& layout);
  /// Nothing for another text, and for that of another version of the rules.
  static std::optional<Summary> parse(std::string_view comment);
  std::string str() const;

 private:
  Summary() = default;
};

/// The layout of the rules that the kernel dumped.
Layout layout_in(const std::vector<netlink::nf::Rule>& rules, Family family,
                 const Options& options);

}  // namespace portmap::nft

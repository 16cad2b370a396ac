#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cnitool/probe/follow.h"
#include "libcni/plugin/iptables_save.h"
#include "netlink/types/ip.h"

/// Rules of iptables-legacy and ip6tables-legacy: nothing traces them, but they count packets.
namespace tool::probe {

/// A rule, or the policy of a chain that drops.
struct LegacyRule {
  std::string table, chain;
  std::string text;       ///< as iptables takes it: "-A FORWARD -j DROP", "-t raw -P OUTPUT DROP"
  cni::Words words = {};  ///< behind the chain; of a policy its target alone, as "-j DROP"
  std::uint64_t packets = 0;

  /// What is behind "-s", "-j"; empty: it has none, or one that a "!" negates.
  std::string_view word_behind(std::string_view option) const;
  bool drops() const;     ///< or queues it for a program
  bool untracks() const;  ///< or tracks it in a zone
  bool rewrites() const;  ///< its time to live, to one that may be too short
  bool leads_to() const;  ///< it replaces the destination
  bool hides() const;     ///< it replaces the source
};

/// Those of all tables that iptables-save prints with counters ("-c"). Any text is harmless.
std::vector<LegacyRule> legacy_rules_in(std::string_view listing);

/// Those of `after` that have counted more packets than the same rule in `before`, in order.
std::vector<LegacyRule> grown(const std::vector<LegacyRule>& before,
                              const std::vector<LegacyRule>& after);

/// The rules that have counted packets since it was made. Runs iptables-legacy-save where tables of
/// iptables-legacy are in use.
class LegacyCounts {
 public:
  /// Of these namespaces, which outlive it; the first is the node.
  explicit LegacyCounts(const std::vector<Follower::Post>& posts);
  /// Counts again.
  void compare();
  /// After compare(): those that have counted packets, by the number of the namespace.
  const std::vector<LegacyRule>& counted(std::size_t place, netlink::Family family) const;
  /// What is not followed therefore; a sentence each.
  const std::vector<std::string>& limits() const { return limits_; }

 private:
  using Key = std::pair<std::size_t, netlink::Family>;
  std::vector<LegacyRule> read(const Key& key);
  void add_limit(const std::string& text);

  const std::vector<Follower::Post>& posts_;
  std::map<Key, std::vector<LegacyRule>> rules_;  ///< where tables are in use
  std::vector<std::string> limits_;
};

}  // namespace tool::probe

#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/plugin/iptables_save.h"
#include "netlink/nf/batch.h"
#include "plugins/firewall/conf.h"
#include "plugins/names/chains.h"

/// The rules of the backend `iptables` in table filter, as values and as text. Names and rules are
/// those of the reference plugin, so that each plugin removes what the other added.
namespace firewall::iptables {

inline constexpr const char* kParent = "FORWARD";
inline constexpr const char* kForward = names::kForwardChain;
inline constexpr const char* kStage1 = names::kIsolationStage1Chain;
inline constexpr const char* kStage2 = names::kIsolationStage2Chain;

/// A rule of these chains. Comments do not tell rules apart: those of policies name the policy that
/// came first, in another form in each release of the reference plugin.
struct FilterRule {
  std::string chain;
  std::string in = {}, out = {};  ///< links; empty: any
  bool other_out = false;         ///< any link but out
  std::optional<netlink::Cidr> source = {}, destination = {};
  bool replies = false;  ///< conntrack states RELATED and ESTABLISHED alone
  std::string target;
  std::string comment = {};
  bool foreign = false;  ///< it has matches that no rule here has

  /// "-m comment --comment \"...\" -j CNI-ADMIN".
  std::string text() const;
  /// Whether it does the same.
  bool equals(const FilterRule& other) const;
};

FilterRule rule_from(const netlink::nf::Rule& rule, Family family);
FilterRule rule_from(const std::string& chain, const cni::Words& saved);

/// The rules of one family that an attachment needs.
struct Wanted {
  Family family = Family::kIpv4;
  std::vector<Ip> addresses;
  std::string admin_chain;
  std::string link;  ///< with a policy
  Policy policy = Policy::kOpen;
  bool policy_alone = false;  ///< another backend accepts the addresses
};

FilterRule forward_jump();
FilterRule admin_jump(const std::string& admin_chain);
FilterRule stage_jump(Policy policy);
/// Two per address.
std::vector<FilterRule> address_rules(const std::vector<Ip>& addresses);
/// The rules of kStage1 and kStage2, in order; the last of each is appended, the others are
/// inserted.
std::vector<FilterRule> stage_rules(const std::string& link, Policy policy);
/// The chains that it needs.
std::vector<std::string> chains_of(const Wanted& wanted);

/// The rules of it that the kernel has.
struct Existing {
  std::set<std::string> chains = {};
  std::vector<FilterRule> parent = {};   ///< of FORWARD
  std::vector<FilterRule> forward = {};  ///< of CNI-FORWARD; the first ones alone will do
  std::vector<FilterRule> stages = {};   ///< of both stages

  bool has(const FilterRule& rule) const;
};

/// Input of iptables-restore that adds what is missing. Packets pass the stages before CNI-FORWARD,
/// which accepts: if another program changed that order, it is restored. Empty: nothing is missing.
std::string rules_to_add(const Wanted& wanted, const Existing& seen);

/// The first rule that is missing, or out of order.
std::optional<std::string> missing(const Wanted& wanted, const Existing& seen);

}  // namespace firewall::iptables

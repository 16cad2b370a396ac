#pragma once

#include <cstdint>
#include <optional>

#include "netlink/route/request.h"
#include "netlink/types/ip.h"

namespace netlink {

/// A rule of the routing policy (ip-rule(8), linux/fib_rules.h) that leads to a table.
struct PolicyRule {
  Family family = Family::kIpv4;
  std::optional<Cidr> from = {};  ///< absent: from anywhere
  std::uint32_t table = 0;
  /// 0 to add: the kernel takes the one below the lowest there is (fib_default_rule_pref()).
  std::uint32_t priority = 0;
  std::uint8_t protocol = 0;  ///< who made it; since Linux 4.17
  /// Whether only `from` selects, and the rule leads to a table.
  bool is_plain = true;
  bool operator==(const PolicyRule&) const = default;
};
/// Reads an RTM_NEWRULE.
PolicyRule decode_policy_rule(const Reply& reply);

RouteRequest add(const PolicyRule& rule);
/// One that is gone already is tolerated. A protocol of 0 is any.
RouteRequest remove(const PolicyRule& rule);

}  // namespace netlink

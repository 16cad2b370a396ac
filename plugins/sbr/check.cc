#include <algorithm>

#include "libcni/common/error.h"
#include "plugins/common/link/route_tables.h"
#include "plugins/sbr/plan.h"
#include "plugins/sbr/routing.h"

namespace sbr {

namespace {

using cni::Address;
using cni::cat;
using netlink::Link;
using netlink::LinkRoute;
using netlink::PolicyRule;

[[noreturn]] void complain(const std::string& what) {
  throw cni::Error(cni::Code::kInternal, what);
}

void check_table(const std::vector<LinkRoute>& routes, const Link& link, const Address& address,
                 std::uint32_t table) {
  const bool has_gateway = address.gateway.has_value();
  const bool is_there = std::ranges::any_of(routes, [&](const LinkRoute& one) {
    return one.table == table && one.link == link.index &&
           one.dst.ip.is_v4() == address.cidr.ip.is_v4() &&
           (!has_gateway || (one.dst.is_default() && one.gateway == address.gateway));
  });
  if (is_there) return;
  complain(cat("table ", table, " of ", address.cidr.ip.str(), " has no ",
               has_gateway ? cat("default route via ", address.gateway->str()) : "route", " on '",
               link.name, "'"));
}

std::string via(const LinkRoute& route) {
  return route.gateway ? cat(" via ", route.gateway->str()) : "";
}

// Next hops that the kernel would choose for a part of the connections.
void check_strays(const std::vector<LinkRoute>& routes, const Link& link, const Address& address,
                  std::uint32_t table) {
  const std::uint32_t metric = metric_of_default(routes, {address, table}, link);
  for (const LinkRoute& one : routes) {
    if (one.table != table || one.priority > metric || !is_stray(one, address, link)) continue;
    complain(cat("table ", table, " of ", address.cidr.ip.str(), " has another default route",
                 via(one)));
  }
}

// Routes that routers advertise are allowed, because they return by themselves.
void check_main(const std::vector<LinkRoute>& routes, const Link& link,
                const std::vector<Address>& addresses) {
  for (const LinkRoute& one : routes) {
    if (one.table != plugins::kMainTable || one.link != link.index || plugins::is_learned(one))
      continue;
    if (!one.dst.is_default() || !belongs_to_any(one, addresses)) continue;
    complain(cat("the main table has a default route", via(one), " on '", link.name, "'"));
  }
}

// Sources that are link-local have no rule.
void check_link_local(const std::vector<LinkRoute>& routes, const Link& link, std::uint32_t table) {
  const auto has_route = [&](std::uint32_t in) {
    return std::ranges::any_of(routes, [&](const LinkRoute& one) {
      return one.table == in && one.link == link.index && is_link_local(one.dst);
    });
  };
  if (!has_route(table) || has_route(plugins::kMainTable)) return;
  complain(cat("the main table has no route to link-local neighbours on '", link.name, "'"));
}

// Requires it only if the interface has a route to the subnet at all.
void check_hint(const std::vector<LinkRoute>& routes, const Link& link, const Address& address,
                std::uint32_t table) {
  if (is_link_local(address.cidr.network())) return;
  const auto has_route = [&](std::uint32_t in, bool with_source) {
    return std::ranges::any_of(routes, [&](const LinkRoute& one) {
      return one.table == in && one.link == link.index && one.dst == address.cidr.network() &&
             (!with_source || one.source);
    });
  };
  if (!has_route(table, false) || has_route(plugins::kMainTable, true)) return;
  complain(cat("the main table has no route to ", address.cidr.network().str(),
               " with a source address on '", link.name, "'"));
}

std::optional<PolicyRule> rule_of_reference(const std::vector<PolicyRule>& rules,
                                            const netlink::Ip& ip) {
  const auto found = std::ranges::find_if(
      rules, [&](const PolicyRule& one) { return is_of(one, ip) && one.protocol == 0; });
  return found == rules.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

void check_routing(plugins::Namespaces& sides, const std::vector<Address>& addresses,
                   const Conf& conf) {
  const auto& table = conf.table;
  const auto rules = plugins::all_rules(sides.pod);
  const auto link = table ? std::nullopt : std::optional(interface_of(sides));
  const auto routes = table ? std::vector<LinkRoute>() : plugins::unicast_routes(sides.pod);
  bool are_ours = true;
  for (const Address& one : addresses) {
    auto rule = rule_of(rules, one.cidr.ip, table);
    if (!rule && !table) {
      rule = rule_of_reference(rules, one.cidr.ip);
      are_ours = false;
    }
    if (!rule) {
      complain(
          cat("no rule from ", one.cidr.ip.str(), table ? cat(" lookup ", *table) : std::string()));
    }
    if (!link) continue;
    check_table(routes, *link, one, rule->table);
    if (are_ours) check_strays(routes, *link, one, rule->table);
    if (are_ours) check_link_local(routes, *link, rule->table);
    if (conf.add_source_hints) check_hint(routes, *link, one, rule->table);
  }
  if (link && are_ours) check_main(routes, *link, addresses);
}

}  // namespace sbr

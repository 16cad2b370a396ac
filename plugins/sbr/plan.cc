#include "plugins/sbr/plan.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "netlink/route/stored_route.h"
#include "plugins/common/link/route_tables.h"

namespace sbr {

namespace {

using cni::Address;
using cni::cat;
using netlink::Ip;
using netlink::Link;
using netlink::LinkRoute;
using netlink::PolicyRule;
using netlink::RouteCopy;
using netlink::RouteRequest;

constexpr std::uint8_t kScopeLink = 253;

bool is_within_any(const Ip& ip, const std::vector<Address>& addresses) {
  return std::ranges::any_of(addresses, [&](const Address& one) { return one.cidr.contains(ip); });
}

RouteRequest ours(const Link& link, LinkRoute route, std::uint32_t table) {
  route.table = table;
  route.protocol = kProtocol;
  RouteRequest out = netlink::add(link, route);
  out.tolerated = {EEXIST};
  return out;
}

// Whether routes that have no gateway themselves reach it.
bool is_reached(const Ip& gateway, const std::vector<RouteCopy>& routes) {
  const bool is_neighbour = gateway.is_link_local() && !gateway.is_v4();
  return is_neighbour || std::ranges::any_of(routes, [&](const RouteCopy& one) {
           return !one.route.gateway && one.route.multipath.empty() &&
                  one.route.dst.contains(gateway);
         });
}

bool is_default_by(const RouteCopy& copy, const Ip& gateway) {
  return copy.route.dst.is_default() && copy.route.gateway == gateway;
}

}  // namespace

netlink::Cidr whole(const Ip& ip) { return {ip, ip.bits()}; }

bool is_of(const PolicyRule& rule, const Ip& ip) { return rule.is_plain && rule.from == whole(ip); }

std::optional<PolicyRule> rule_of(const std::vector<PolicyRule>& rules, const Ip& ip,
                                  std::optional<std::uint32_t> table) {
  for (const PolicyRule& rule : rules) {
    const bool is_wanted = table ? rule.table == *table : rule.protocol == kProtocol;
    if (is_of(rule, ip) && is_wanted) return rule;
  }
  return std::nullopt;
}

bool belongs(const LinkRoute& route, const Address& address, const std::vector<Address>& all) {
  if (route.dst.ip.is_v4() != address.cidr.ip.is_v4()) return false;
  if (route.source && address.cidr.contains(*route.source)) return true;
  if (!route.gateway) return !route.source;
  return address.cidr.contains(*route.gateway) || !is_within_any(*route.gateway, all);
}

bool belongs_to_any(const LinkRoute& route, const std::vector<Address>& all) {
  return std::ranges::any_of(all,
                             [&](const Address& address) { return belongs(route, address, all); });
}

bool is_stray(const LinkRoute& route, const Address& address, const Link& link) {
  if (!address.gateway || !route.dst.is_default()) return false;
  if (route.dst.ip.is_v4() != address.gateway->is_v4()) return false;
  return route.gateway != address.gateway || route.link != link.index;
}

std::uint32_t metric_of_default(const std::vector<LinkRoute>& routes, const Place& place,
                                const Link& link) {
  std::uint32_t out = std::numeric_limits<std::uint32_t>::max();
  for (const LinkRoute& one : routes) {
    const bool is_default = one.table == place.table && one.dst.is_default() &&
                            one.link == link.index && one.gateway == place.address.gateway;
    if (is_default && one.gateway) out = std::min(out, one.priority);
  }
  return out;
}

std::string words_for(const LinkRoute& route) {
  return cat(route.dst.str(), route.gateway ? cat(" via ", route.gateway->str()) : "",
             route.source ? cat(" src ", route.source->str()) : "", " metric ", route.priority);
}

bool is_link_local(const netlink::Cidr& subnet) {
  return !subnet.ip.is_v4() && subnet.ip.is_link_local();
}

std::vector<netlink::Cidr> subnets_without_rule(const std::vector<netlink::LinkAddress>& present,
                                                const std::vector<Address>& addresses) {
  std::vector<netlink::Cidr> out;
  for (const netlink::LinkAddress& one : present) {
    const auto subnet = one.cidr.network();
    const bool has_rule = std::ranges::any_of(
        addresses, [&](const Address& address) { return address.cidr.network() == subnet; });
    if (!has_rule && !one.cidr.ip.is_v4()) out.push_back(subnet);
  }
  return out;
}

bool is_needed_in_main(const LinkRoute& route, const std::vector<netlink::Cidr>& subnets) {
  if (route.gateway || !route.multipath.empty()) return false;
  return is_link_local(route.dst) || is_in(subnets, route.dst);
}

std::vector<RouteCopy> movable(const std::vector<RouteCopy>& routes,
                               const std::vector<Address>& addresses) {
  std::vector<RouteCopy> out;
  for (const RouteCopy& one : routes) {
    // Ours: a source hint.
    if (one.route.table != plugins::kMainTable || one.route.protocol == kProtocol) continue;
    if (belongs_to_any(one.route, addresses)) out.push_back(one);
  }
  return out;
}

std::vector<RouteCopy> moved_before(const State& earlier, const Link& link,
                                    const std::vector<RouteCopy>& moved) {
  std::vector<RouteCopy> out;
  for (const std::string& text : earlier.routes) {
    auto copy = netlink::route_from_stored(text);
    if (!copy || !netlink::part_by(*copy, link)) continue;  // of an interface of that name before
    const std::string words = words_for(copy->route);
    const bool is_known = std::ranges::any_of(
        moved, [&](const RouteCopy& one) { return words_for(one.route) == words; });
    if (!is_known) out.push_back(*std::move(copy));
  }
  return out;
}

bool is_to_subnet(const LinkRoute& route, const std::vector<Address>& addresses) {
  return std::ranges::any_of(addresses, [&](const Address& one) {
    return route.dst.prefix >= one.cidr.prefix && one.cidr.contains(route.dst.ip);
  });
}

std::vector<LinkRoute> hints_for(const std::vector<RouteCopy>& routes,
                                 const std::vector<RouteCopy>& main,
                                 const std::vector<Address>& addresses) {
  std::vector<LinkRoute> out;
  for (const RouteCopy& copy : routes) {
    const LinkRoute& route = copy.route;
    const auto of = std::ranges::find_if(
        addresses, [&](const Address& one) { return is_to_subnet(route, {one}); });
    const bool is_there = std::ranges::any_of(main, [&](const RouteCopy& one) {
      return one.route.table == plugins::kMainTable && one.route.dst == route.dst &&
             one.route.source;
    });
    if (of == addresses.end() || is_there || !route.multipath.empty()) continue;
    if (is_link_local(route.dst)) continue;  // stays without one
    out.push_back({.dst = route.dst,
                   .gateway = route.gateway,
                   .priority = route.priority,
                   .scope = route.scope,
                   .protocol = kProtocol,
                   .source = route.source.value_or(of->cidr.ip)});
  }
  return out;
}

std::vector<RouteRequest> filling(const Link& link, const Place& place,
                                  const std::vector<RouteCopy>& routes,
                                  const std::vector<Address>& all) {
  std::vector<RouteCopy> own;
  for (const RouteCopy& one : routes) {
    const bool is_own = belongs(one.route, place.address, all);
    if (is_own && !is_stray(one.route, place.address, link)) own.push_back(one);
  }
  plugins::gateways_last(own);
  const auto by_gateway = std::ranges::find_if(
      own, [](const RouteCopy& one) { return one.route.gateway || !one.route.multipath.empty(); });
  std::vector<RouteRequest> out;
  for (auto one = own.begin(); one != by_gateway; ++one) {
    out.push_back(netlink::add(*one, place.table));
  }
  if (const auto& gateway = place.address.gateway) {
    if (!is_reached(*gateway, own)) {
      out.push_back(ours(link, {.dst = whole(*gateway), .scope = kScopeLink}, place.table));
    }
    if (std::ranges::none_of(own,
                             [&](const RouteCopy& one) { return is_default_by(one, *gateway); })) {
      const Ip any = Ip::any(gateway->family());
      out.push_back(ours(link, {.dst = {any, 0}, .gateway = gateway}, place.table));
    }
  }
  for (auto one = by_gateway; one != own.end(); ++one) {
    out.push_back(netlink::add(*one, place.table));
  }
  return out;
}

bool has_place(const LinkRoute& route, const std::vector<Place>& places, const Link& link,
               const std::vector<Address>& all) {
  return std::ranges::any_of(places, [&](const Place& place) {
    return belongs(route, place.address, all) && !is_stray(route, place.address, link);
  });
}

}  // namespace sbr

#include "plugins/sbr/routing.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/plugin/privileges.h"
#include "plugins/common/interface.h"
#include "plugins/common/route_tables.h"

namespace sbr {

namespace {

using cni::Address;
using cni::cat;
using cni::Code;
using netlink::Capability;
using netlink::Family;
using netlink::Ip;
using netlink::Link;
using netlink::LinkRoute;
using netlink::NetNs;
using netlink::PolicyRule;
using netlink::RouteCopy;
using netlink::RouteRequest;
using netlink::RouteSocket;
using plugins::all_routes;
using plugins::all_rules;

constexpr std::uint32_t kMain = plugins::kMainTable;
constexpr std::uint32_t kFirstTable = 100;  // the reference's
constexpr std::uint8_t kScopeLink = 253;

Family family_of(const Ip& ip) { return ip.is_v4() ? Family::kIpv4 : Family::kIpv6; }

netlink::Cidr whole(const Ip& ip) { return {ip, ip.bits()}; }

template <class T, class Value>
bool is_in(const std::vector<T>& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool is_of(const PolicyRule& rule, const Ip& ip) { return rule.is_plain && rule.from == whole(ip); }

// A rule of the address: to the table, or without one to whichever table.
std::optional<PolicyRule> rule_of(const std::vector<PolicyRule>& rules, const Ip& ip,
                                  std::optional<std::uint32_t> table) {
  for (const PolicyRule& rule : rules) {
    const bool is_wanted = table ? rule.table == *table : rule.protocol == kProtocol;
    if (is_of(rule, ip) && is_wanted) return rule;
  }
  return std::nullopt;
}

// Of one address: where its routes are to be.
struct Place {
  const Address& address;
  std::uint32_t table = 0;
  bool has_rule = false;
  bool is_fresh = false;  ///< a table that nothing was in before
};

// Which route it is, in whatever table.
std::string words_for(const LinkRoute& route) {
  return cat(route.dst.str(), route.gateway ? cat(" via ", route.gateway->str()) : "",
             route.source ? cat(" src ", route.source->str()) : "", " metric ", route.priority);
}

bool has_rule(const State& state, const Ip& ip, std::uint32_t table) {
  for (std::size_t i = 0; i < state.addresses.size(); ++i) {
    if (state.addresses[i] == ip && state.tables[i] == table) return true;
  }
  return false;
}

// The table that an earlier ADD of the attachment chose.
std::optional<std::uint32_t> table_in(const std::optional<State>& state, const Ip& ip) {
  if (!state) return std::nullopt;
  const auto at = std::find(state->addresses.begin(), state->addresses.end(), ip);
  const auto i = static_cast<std::size_t>(at - state->addresses.begin());
  return i < state->tables.size() ? std::optional(state->tables[i]) : std::nullopt;
}

std::vector<Place> places_of(RouteSocket& pod, const std::vector<Address>& addresses,
                             const std::vector<PolicyRule>& rules,
                             const std::optional<State>& earlier) {
  const auto used = plugins::tables_in_use(pod, rules);
  std::vector<Place> out;
  std::uint32_t next = kFirstTable;
  for (const Address& address : addresses) {
    const Ip& ip = address.cidr.ip;
    const auto rule = rule_of(rules, ip, table_in(earlier, ip));
    if (rule) {
      out.push_back({address, rule->table, true});
    } else if (const auto table = table_in(earlier, ip)) {
      out.push_back({address, *table});
    } else {
      while (used.contains(next)) ++next;
      out.push_back({.address = address, .table = next++, .is_fresh = true});
    }
  }
  return out;
}

bool is_within_any(const Ip& ip, const std::vector<Address>& addresses) {
  return std::any_of(addresses.begin(), addresses.end(),
                     [&](const Address& one) { return one.cidr.contains(ip); });
}

// A route of the address, or of no address in particular.
bool belongs(const LinkRoute& route, const Address& address, const std::vector<Address>& all) {
  if (route.dst.ip.is_v4() != address.cidr.ip.is_v4()) return false;
  if (route.source && address.cidr.contains(*route.source)) return true;
  if (!route.gateway) return !route.source;
  return address.cidr.contains(*route.gateway) || !is_within_any(*route.gateway, all);
}

// What leaves the main table: the routes by this link alone that get another place.
std::vector<RouteCopy> movable(const std::vector<RouteCopy>& routes, const Link& link,
                               const std::vector<Address>& addresses) {
  std::vector<RouteCopy> out;
  for (const RouteCopy& one : routes) {
    if (one.route.table != kMain || !plugins::leads_by(one.route, link)) continue;
    const bool has_place =
        std::any_of(addresses.begin(), addresses.end(),
                    [&](const Address& address) { return belongs(one.route, address, addresses); });
    if (has_place) out.push_back(one);
  }
  plugins::gateways_last(out);
  return out;
}

RouteRequest ours(const Link& link, LinkRoute route, std::uint32_t table) {
  route.table = table;
  route.protocol = kProtocol;
  RouteRequest out = netlink::add(link, route);
  out.tolerated = {EEXIST};
  return out;
}

void fill(std::vector<RouteRequest>& requests, const Link& link, const Place& place,
          const std::vector<RouteCopy>& routes, const std::vector<Address>& all) {
  std::vector<RouteRequest> by_gateway;
  for (const RouteCopy& one : routes) {
    if (!belongs(one.route, place.address, all)) continue;
    (one.route.gateway ? by_gateway : requests).push_back(netlink::add(one, place.table));
  }
  if (const auto& gateway = place.address.gateway) {
    const auto any = Ip::any(family_of(*gateway));
    if (!place.address.cidr.contains(*gateway) && !gateway->is_link_local()) {
      requests.push_back(ours(link, {.dst = whole(*gateway), .scope = kScopeLink}, place.table));
    }
    requests.push_back(ours(link, {.dst = {any, 0}, .gateway = gateway}, place.table));
  }
  for (RouteRequest& one : by_gateway) requests.push_back(std::move(one));
}

// Undo steps of ADD.
struct RemoveRules {
  NetNs ns;
  std::vector<PolicyRule> rules;
  void operator()() const {
    RouteSocket pod(ns);
    const auto now = all_rules(pod);
    for (const PolicyRule& rule : rules) {
      for (const PolicyRule& seen : now) {
        if (is_of(seen, rule.from->ip) && seen.table == rule.table && seen.protocol == kProtocol) {
          pod.send(netlink::remove(seen));
        }
      }
    }
  }
  std::string describe() const { return "remove the rules"; }
};

struct EmptyTables {
  NetNs ns;
  std::vector<std::uint32_t> tables;
  void operator()() const {
    RouteSocket pod(ns);
    for (const RouteCopy& one : all_routes(pod)) {
      if (is_in(tables, one.route.table)) pod.send(netlink::remove(one));
    }
  }
  std::string describe() const { return "empty the tables"; }
};

struct PutBack {
  NetNs ns;
  std::vector<RouteCopy> routes;
  void operator()() const {
    RouteSocket pod(ns);
    for (const RouteCopy& one : routes) pod.send(netlink::add(one, kMain));
  }
  std::string describe() const { return "put the routes back into the main table"; }
};

// Of an earlier ADD of the attachment in the same namespace.
std::optional<State> earlier_state(Pod& pod, const StateDir& states) {
  auto out = states.read(file_of(pod.request));
  if (out && !out->owner.is_in(pod.socket.cookie())) out.reset();
  return out;
}

State state_with(const State& earlier, const std::vector<Place>& places,
                 const std::vector<RouteCopy>& moved) {
  State out = earlier;
  for (const Place& place : places) {
    const Ip& ip = place.address.cidr.ip;
    if (has_rule(out, ip, place.table)) continue;
    out.addresses.push_back(ip);
    out.tables.push_back(place.table);
  }
  for (const RouteCopy& one : moved) {
    std::string words = words_for(one.route);
    if (!is_in(out.moved, words)) out.moved.push_back(std::move(words));
  }
  return out;
}

void add_rules(Pod& pod, const std::vector<Place>& places, cni::Undo& undo) {
  std::vector<PolicyRule> rules;
  for (const Place& place : places) {
    if (place.has_rule) continue;
    const Ip& ip = place.address.cidr.ip;
    rules.push_back(
        {.family = family_of(ip), .from = whole(ip), .table = place.table, .protocol = kProtocol});
  }
  if (rules.empty()) return;
  undo.add(RemoveRules{pod.ns, rules});
  for (const PolicyRule& rule : rules) pod.socket.send(netlink::add(rule));
}

// The routes are in their tables before the rules lead there, and leave the main table last: no
// packet is without a route meanwhile.
void move_routes(Pod& pod, const Link& link, const std::vector<Address>& addresses,
                 const std::vector<Place>& places, const std::vector<RouteCopy>& moved,
                 cni::Undo& undo) {
  std::vector<RouteRequest> requests;
  std::vector<std::uint32_t> fresh;
  for (const Place& place : places) {
    fill(requests, link, place, moved, addresses);
    if (place.is_fresh) fresh.push_back(place.table);
  }
  undo.add(EmptyTables{pod.ns, fresh});
  pod.socket.send(std::move(requests));
  add_rules(pod, places, undo);
  if (moved.empty()) return;
  undo.add(PutBack{pod.ns, moved});
  requests.clear();
  for (const RouteCopy& one : moved) requests.push_back(netlink::remove(one));
  pod.socket.send(std::move(requests));
}

[[noreturn]] void complain(const std::string& what) { throw cni::Error(Code::kInternal, what); }

void check_table(const std::vector<RouteCopy>& routes, const Link& link, const Address& address,
                 std::uint32_t table) {
  const bool has_gateway = address.gateway.has_value();
  const bool is_there = std::any_of(routes.begin(), routes.end(), [&](const RouteCopy& one) {
    return one.route.table == table && one.route.link == link.index &&
           one.route.dst.ip.is_v4() == address.cidr.ip.is_v4() &&
           (!has_gateway || (one.route.dst.is_default() && one.route.gateway == address.gateway));
  });
  if (is_there) return;
  complain(cat("table ", table, " of ", address.cidr.ip.str(), " has no ",
               has_gateway ? cat("default route via ", address.gateway->str()) : "route", " on '",
               link.name, "'"));
}

}  // namespace

Pod::Pod(const cni::Request& of) : request(of), ns(cni::open_netns(of)), socket(ns) {
  if (of.command == cni::Command::kCheck) return;
  cni::require_capabilities(of, {Capability::kNetAdmin, Capability::kSysAdmin});
}

Link Pod::interface() {
  auto link = socket.find(request.ifname);
  if (link) return *std::move(link);
  throw cni::Error(Code::kInternal,
                   cat("Cannot find network interface ", request.ifname, ": Link not found"),
                   "sbr is chained after the plugin that creates it");
}

std::vector<Address> addresses_of(const cni::Request& request, const cni::Result& result) {
  auto out = plugins::addresses_of(result, request.ifname);
  if (!out.empty()) return out;
  throw cni::Error(Code::kInternal, cat("No IP addresses supplied on interface: ", request.ifname),
                   "prevResult has none that is this interface's");
}

void set_routing(Pod& pod, const std::vector<Address>& addresses,
                 std::optional<std::uint32_t> table, cni::Undo& undo) {
  const StateDir states = StateDir::create();
  const auto lock = plugins::lock_route_tables();
  const auto earlier = earlier_state(pod, states);
  const State start =
      earlier.value_or(State{.owner = plugins::state_owner(pod.request, pod.socket)});
  const auto rules = all_rules(pod.socket);
  if (table) {
    std::vector<Place> places;
    for (const Address& one : addresses) {
      places.push_back({one, *table, rule_of(rules, one.cidr.ip, table).has_value()});
    }
    plugins::put_state(states, earlier, state_with(start, places, {}), undo);
    return add_rules(pod, places, undo);
  }
  const Link link = pod.interface();
  const auto moved = movable(all_routes(pod.socket), link, addresses);
  const auto places = places_of(pod.socket, addresses, rules, earlier);
  plugins::put_state(states, earlier, state_with(start, places, moved), undo);
  move_routes(pod, link, addresses, places, moved, undo);
}

void check_routing(Pod& pod, const std::vector<Address>& addresses,
                   std::optional<std::uint32_t> table) {
  const auto rules = all_rules(pod.socket);
  const auto link = table ? std::nullopt : std::optional(pod.interface());
  const auto routes = table ? std::vector<RouteCopy>() : all_routes(pod.socket);
  for (const Address& one : addresses) {
    auto rule = rule_of(rules, one.cidr.ip, table);
    if (!rule && !table) {  // of the reference plugin
      const auto found = std::find_if(rules.begin(), rules.end(), [&](const PolicyRule& other) {
        return is_of(other, one.cidr.ip) && other.protocol == 0;
      });
      if (found != rules.end()) rule = *found;
    }
    if (!rule) {
      complain(
          cat("no rule from ", one.cidr.ip.str(), table ? cat(" lookup ", *table) : std::string()));
    }
    if (link) check_table(routes, *link, one, rule->table);
  }
}

void remove_routing(RouteSocket& pod, const State& state) {
  for (const PolicyRule& rule : all_rules(pod)) {
    const bool is_ours = rule.is_plain && rule.protocol == kProtocol && rule.from &&
                         has_rule(state, rule.from->ip, rule.table);
    if (is_ours) pod.send(netlink::remove(rule));
  }
  auto routes = all_routes(pod);
  std::erase_if(routes, [&](const RouteCopy& one) {
    const bool is_ours =
        one.route.protocol == kProtocol || is_in(state.moved, words_for(one.route));
    return !is_ours || !is_in(state.tables, one.route.table);
  });
  plugins::gateways_last(routes);
  std::vector<RouteRequest> requests;
  for (const RouteCopy& one : routes) {
    if (one.route.protocol != kProtocol) requests.push_back(netlink::add(one, kMain));
  }
  for (const RouteCopy& one : routes) requests.push_back(netlink::remove(one));
  pod.send(std::move(requests));
}

void remove_reference_rules(RouteSocket& pod, const std::string& ifname,
                            std::optional<std::uint32_t> table) {
  const auto link = pod.find(ifname);
  if (!link) return;
  const auto addresses = pod.addresses(*link);
  for (const PolicyRule& rule : all_rules(pod)) {
    const bool is_theirs =
        rule.is_plain && rule.protocol == 0 && rule.from && (!table || rule.table == *table);
    if (!is_theirs) continue;
    const bool is_of_link = std::any_of(addresses.begin(), addresses.end(),
                                        [&](const auto& one) { return is_of(rule, one.cidr.ip); });
    if (is_of_link) pod.send(netlink::remove(rule));
  }
}

}  // namespace sbr

#include "plugins/sbr/routing.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "libcni/common/error.h"
#include "netlink/route/stored_route.h"
#include "plugins/common/link/interface.h"
#include "plugins/common/link/route_tables.h"
#include "plugins/sbr/plan.h"

namespace sbr {

namespace {

using cni::Address;
using cni::cat;
using cni::Code;
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

constexpr std::uint32_t kFirstTable = 100;  // the reference's

// The table that an earlier ADD of the attachment chose.
std::optional<std::uint32_t> table_in(const std::optional<State>& state, const Ip& ip) {
  if (!state) return std::nullopt;
  const auto at = std::ranges::find(state->addresses, ip);
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

// Default routes in tables that are ours already, by which an address would not leave.
std::vector<RouteCopy> strays_in(RouteSocket& pod, const Link& link,
                                 const std::vector<Place>& places) {
  std::vector<RouteCopy> out;
  if (std::ranges::all_of(places, [](const Place& one) { return one.is_fresh; })) {
    return out;
  }
  const auto routes = all_routes(pod);
  std::vector<LinkRoute> hops;
  for (const RouteCopy& route : routes) {
    for (LinkRoute& one : netlink::each_hop(route.route)) hops.push_back(std::move(one));
  }
  for (const Place& place : places) {
    const std::uint32_t metric = metric_of_default(hops, place, link);
    for (const RouteCopy& one : routes) {
      const bool is_here = one.route.table == place.table && one.route.priority <= metric;
      if (is_here && is_stray(one.route, place.address, link)) out.push_back(one);
    }
  }
  return out;
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
    for (const RouteCopy& one : routes) pod.send(netlink::restore(one));
  }
  std::string describe() const { return "put the routes back into their table"; }
};

struct RemoveHints {
  NetNs ns;
  std::vector<std::string> hints;  // words_for() them
  void operator()() const {
    RouteSocket pod(ns);
    remove_hints(pod, hints);
  }
  std::string describe() const { return "remove the source hints"; }
};

// The state of an earlier ADD of the attachment in the same namespace.
std::optional<State> earlier_state(plugins::Namespaces& sides,
                                   const std::optional<StateDir>& states) {
  auto out = states ? states->read(plugins::state_owner(sides.request)) : std::nullopt;
  if (out && !out->owner.is_in(sides.pod.cookie())) out.reset();
  return out;
}

// ADD goes on if /run/cni is read-only, as does the reference plugin, which keeps nothing.
constexpr const char* kNoState = "sbr: DEL will go by the addresses of the interface";

void put_state(const std::optional<StateDir>& states, const std::optional<State>& earlier,
               const State& state, cni::Undo& undo) {
  if (!states) return;
  cni::noting_failure(
      kNoState, [&] { plugins::put_state(*states, earlier, state, undo); }, cni::is_refusal);
}

// Routes, by the table that they leave and the one that they get.
struct Moves {
  std::vector<RouteCopy> from_main = {};
  std::vector<RouteCopy> kept = {};    ///< in the main table, besides
  std::vector<LinkRoute> hints = {};   ///< that the main table gets
  std::vector<RouteCopy> strays = {};  ///< which no table has any more
  std::vector<RouteCopy> before = {};  ///< of an earlier ADD: what the tables lack is added again
  std::vector<RouteCopy> back = {};    ///< of those: which an earlier version did not keep
};

// All routes that belong in the pod's own tables.
std::vector<RouteCopy> all_of(const Moves& moves) {
  auto out = moves.from_main;
  out.insert(out.end(), moves.kept.begin(), moves.kept.end());
  out.insert(out.end(), moves.before.begin(), moves.before.end());
  return out;
}

Moves moves_of(plugins::Namespaces& sides, const Link& link, const std::vector<Address>& addresses,
               const State& earlier, bool with_hints) {
  const auto present = plugins::routes_by(sides.pod, link);
  Moves out{.from_main = movable(present, addresses)};
  out.before = moved_before(earlier, link, out.from_main);
  if (with_hints) out.hints = hints_for(all_of(out), present, addresses);
  const auto subnets =
      subnets_without_rule(sides.pod.addresses(link, netlink::Family::kIpv6), addresses);
  const auto is_needed = [&](const RouteCopy& one) {
    return is_needed_in_main(one.route, subnets);
  };
  std::ranges::copy_if(out.before, std::back_inserter(out.back), is_needed);
  const auto leaves =
      std::stable_partition(out.from_main.begin(), out.from_main.end(), [&](const RouteCopy& one) {
        const bool is_hint = with_hints && one.route.source && is_to_subnet(one.route, addresses);
        return is_hint || is_needed(one);
      });
  out.kept.assign(out.from_main.begin(), leaves);
  out.from_main.erase(out.from_main.begin(), leaves);
  return out;
}

State state_with(const State& earlier, const std::vector<Place>& places, const Moves& moves,
                 const std::vector<std::string>& placed) {
  State out = earlier;
  for (const Place& place : places) {
    const Ip& ip = place.address.cidr.ip;
    if (out.has_rule(ip, place.table)) continue;
    out.addresses.push_back(ip);
    out.tables.push_back(place.table);
  }
  for (const std::string& words : placed) {
    if (!is_in(out.moved, words)) out.moved.push_back(words);
  }
  const auto keep = [&out](const RouteCopy& one) {
    std::string text = netlink::stored(one);
    if (!is_in(out.routes, text)) out.routes.push_back(std::move(text));
  };
  for (const auto* const routes : {&moves.from_main, &moves.kept}) {
    for (const RouteCopy& one : *routes) keep(one);
  }
  for (const LinkRoute& one : moves.hints) {
    std::string words = words_for(one);
    if (!is_in(out.hints, words)) out.hints.push_back(std::move(words));
  }
  for (const RouteCopy& one : moves.strays) {
    const auto at = std::ranges::find(out.moved, words_for(one.route));
    if (at == out.moved.end()) continue;
    out.moved.erase(at);
    keep(one);
  }
  return out;
}

void add_rules(plugins::Namespaces& sides, const std::vector<Place>& places, cni::Undo& undo) {
  std::vector<PolicyRule> rules;
  for (const Place& place : places) {
    if (place.has_rule) continue;
    const Ip& ip = place.address.cidr.ip;
    rules.push_back(
        {.family = ip.family(), .from = whole(ip), .table = place.table, .protocol = kProtocol});
  }
  if (rules.empty()) return;
  undo.add(RemoveRules{sides.pod_ns, rules});
  for (const PolicyRule& rule : rules) sides.pod.send(netlink::add(rule));
}

void take_out(plugins::Namespaces& sides, const std::vector<RouteCopy>& routes, cni::Undo& undo) {
  if (routes.empty()) return;
  undo.add(PutBack{sides.pod_ns, routes});
  std::vector<RouteRequest> requests;
  for (const RouteCopy& route : routes) {
    for (RouteRequest& one : netlink::remove(route)) requests.push_back(std::move(one));
  }
  sides.pod.send(std::move(requests));
}

void add_hints(plugins::Namespaces& sides, const Link& link, const std::vector<LinkRoute>& hints,
               cni::Undo& undo) {
  if (hints.empty()) return;
  std::vector<std::string> words;
  std::vector<RouteRequest> requests;
  for (const LinkRoute& one : hints) {
    words.push_back(words_for(one));
    requests.push_back(netlink::add(link, one));
    requests.back().tolerated = {EEXIST};
  }
  undo.add(RemoveHints{sides.pod_ns, words});
  sides.pod.send(std::move(requests));
}

// The routes are in their tables before the rules lead there, and leave the main table last: no
// packet is without a route meanwhile.
void move_routes(plugins::Namespaces& sides, const Link& link,
                 const std::vector<Address>& addresses, const std::vector<Place>& places,
                 const Moves& moves, cni::Undo& undo) {
  std::vector<RouteRequest> requests;
  std::vector<std::uint32_t> fresh;
  const auto routes = all_of(moves);
  for (const Place& place : places) {
    for (RouteRequest& one : filling(link, place, routes, addresses)) {
      requests.push_back(std::move(one));
    }
    if (place.is_fresh) fresh.push_back(place.table);
  }
  take_out(sides, moves.strays, undo);
  undo.add(EmptyTables{sides.pod_ns, fresh});
  sides.pod.send(std::move(requests));
  add_rules(sides, places, undo);
  take_out(sides, moves.from_main, undo);
  add_hints(sides, link, moves.hints, undo);
  for (const RouteCopy& one : moves.back) {
    sides.pod.send(netlink::add(one, plugins::kMainTable));
  }
}

}  // namespace

Link interface_of(plugins::Namespaces& sides) {
  return plugins::require_interface(
      sides, cat("Cannot find network interface ", sides.request.ifname, ": Link not found"));
}

std::vector<Address> addresses_of(const cni::Request& request, const cni::Result& result,
                                  const Conf& conf) {
  auto out = plugins::addresses_of(result, request.ifname);
  for (Address& address : out) {
    for (const Ip& gateway : conf.gateways) {
      if (gateway.is_v4() == address.cidr.ip.is_v4()) address.gateway = gateway;
    }
  }
  if (!out.empty()) return out;
  throw cni::Error(Code::kInternal, cat("No IP addresses supplied on interface: ", request.ifname),
                   "prevResult has none that is this interface's");
}

void set_routing(plugins::Namespaces& sides, const std::vector<Address>& addresses,
                 const Conf& conf, cni::Undo& undo) {
  const auto states = cni::noting_failure(
      kNoState, [] { return std::optional(StateDir::create()); }, cni::is_refusal);
  const auto lock = plugins::lock_route_tables();
  const auto earlier = earlier_state(sides, states);
  const State start =
      earlier.value_or(State{.owner = plugins::state_owner(sides.request, sides.pod)});
  const auto rules = all_rules(sides.pod);
  if (conf.table) {
    std::vector<Place> places;
    for (const Address& one : addresses) {
      places.push_back({one, *conf.table, rule_of(rules, one.cidr.ip, conf.table).has_value()});
    }
    put_state(states, earlier, state_with(start, places, {}, {}), undo);
    return add_rules(sides, places, undo);
  }
  const Link link = interface_of(sides);
  Moves moves = moves_of(sides, link, addresses, start, conf.add_source_hints);
  const auto places = places_of(sides.pod, addresses, rules, earlier);
  moves.strays = strays_in(sides.pod, link, places);
  std::vector<std::string> placed;
  for (const RouteCopy& one : all_of(moves)) {
    if (has_place(one.route, places, link, addresses)) placed.push_back(words_for(one.route));
  }
  put_state(states, earlier, state_with(start, places, moves, placed), undo);
  move_routes(sides, link, addresses, places, moves, undo);
}

}  // namespace sbr

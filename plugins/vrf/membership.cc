#include "plugins/vrf/membership.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "netlink/route/stored_route.h"
#include "plugins/common/link/interface.h"
#include "plugins/common/link/route_tables.h"
#include "plugins/vrf/move.h"

namespace vrf {

namespace {

using cni::cat;
using cni::Code;
using netlink::Link;
using netlink::LinkRoute;
using netlink::NetNs;
using netlink::RouteSocket;

// 0 of a link of another kind.
std::uint32_t table_of(const Link& link) {
  const auto* const vrf = std::get_if<netlink::Vrf>(&link.data);
  return vrf == nullptr ? 0 : vrf->table;
}

std::vector<Link> members_of(RouteSocket& pod, const Link& vrf) {
  auto out = pod.links();
  std::erase_if(out, [&](const Link& one) { return one.master != vrf.index; });
  return out;
}

std::optional<Link> find_vrf(RouteSocket& pod, const Conf& conf) {
  auto link = pod.find(conf.name);
  if (!link) return std::nullopt;
  const std::uint32_t table = table_of(*link);
  if (table == 0) {
    throw cni::Error(Code::kInternal, cat("Netlink ", conf.name, " is not a VRF"),
                     cat("the pod has a link of this name, of kind '", link->kind, "'"));
  }
  if (conf.table != 0 && conf.table != table) {
    throw cni::Error(Code::kInternal,
                     cat("VRF ", conf.name, " already exist with different routing table ", table),
                     cat("table: the config has ", conf.table));
  }
  return link;
}

Link require_vrf(plugins::Namespaces& sides, const Conf& conf) {
  auto vrf = find_vrf(sides.pod, conf);
  if (vrf) return *std::move(vrf);
  throw cni::Error(Code::kInternal, "Link not found", cat("the pod has no VRF '", conf.name, "'"));
}

void require_free(RouteSocket& pod, const Link& link, const std::optional<Link>& vrf) {
  if (link.master == 0 || (vrf && vrf->index == link.master)) return;
  const auto master = pod.find(link.master);
  throw cni::Error(Code::kInternal, cat("interface ", link.name, " has already a master set: ",
                                        master ? master->name : cat("#", link.master)));
}

Link interface_of(plugins::Namespaces& sides) {
  return plugins::require_interface(sides,
                                    cat("could not get link by name ", sides.request.ifname));
}

std::uint32_t choose_table(plugins::Namespaces& sides, const Conf& conf) {
  if (conf.table != 0) return conf.table;
  const auto used = plugins::tables_in_use(sides.pod, plugins::all_rules(sides.pod));
  std::uint32_t table = 1;
  while (used.contains(table)) ++table;
  return table;
}

// The state of an earlier ADD of the attachment in the same namespace.
std::optional<State> earlier_state(plugins::Namespaces& sides, const StateDir& states) {
  auto out = states.read(plugins::state_owner(sides.request));
  if (out && out->owner != plugins::state_owner(sides.request, sides.pod)) out.reset();
  return out;
}

// A VRF that exists before an interface joins it, and has no other, is the pod's own.
bool is_of_pod(plugins::Namespaces& sides, const StateDir& states, const Link& vrf,
               const Link& link) {
  if (link.master == vrf.index) return false;
  const auto members = members_of(sides.pod, vrf);
  return members.empty() || std::ranges::any_of(members, [&](const Link& one) {
           const auto state = states.read({.key = {"", sides.request.container_id, one.name}});
           return state && state->vrf == vrf.name && state->keeps_vrf &&
                  state->owner.is_in(sides.pod.cookie());
         });
}

// Collects what the interface takes into the VRF, and puts its settings into the state: those of an
// earlier call, if that was killed.
Baggage pack(plugins::Namespaces& sides, const Link& link, const std::optional<State>& earlier,
             State& state) {
  Baggage out = baggage_of(sides.pod, link, plugins::kMainTable);
  state.ipv6 = earlier && earlier->ipv6 ? earlier->ipv6 : out.ipv6;
  if (earlier) state.routes = earlier->routes;
  if (link.master != 0) return out;
  for (const netlink::RouteCopy& one : out.routes) {
    std::string text = netlink::stored(one);
    const auto end = state.routes.end();
    if (std::find(state.routes.begin(), end, text) == end) state.routes.push_back(std::move(text));
  }
  out.ipv6 = state.ipv6;
  return out;
}

void remove_if_empty(RouteSocket& pod, const Link& vrf) {
  if (members_of(pod, vrf).empty()) pod.send(netlink::remove_link(vrf));
}

// Undo step of ADD.
struct RemoveVrf {
  NetNs ns;
  std::string name;
  std::uint32_t table;
  void operator()() const {
    RouteSocket pod(ns);
    const auto vrf = pod.find(name);
    if (vrf && table_of(*vrf) == table) remove_if_empty(pod, *vrf);
  }
  std::string describe() const { return cat("remove '", name, "'"); }
};

Link create_vrf(plugins::Namespaces& sides, const State& state, cni::Undo& undo) {
  undo.add(RemoveVrf{sides.pod_ns, state.vrf, state.table});
  return cni::during(cat("could not add VRF ", state.vrf), [&] {
    sides.pod.send(netlink::add(netlink::NewLink{
        .kind = "vrf", .name = state.vrf, .up = true, .data = netlink::Vrf{state.table}}));
    return sides.pod.get(state.vrf);
  });
}

std::vector<netlink::Cidr> missing_addresses(plugins::Namespaces& sides, const Link& link,
                                             const cni::Result& result) {
  const auto present = sides.pod.addresses(link);
  std::vector<netlink::Cidr> out;
  for (const cni::Address& one : plugins::addresses_of(result, link.name)) {
    const auto is_same = [&](const auto& seen) { return seen.cidr == one.cidr; };
    if (std::ranges::none_of(present, is_same)) out.push_back(one.cidr);
  }
  return out;
}

// Puts the result's routes into table, except for those with a table of their own.
std::vector<LinkRoute> wanted_routes(const cni::Result& result, const std::string& ifname,
                                     std::uint32_t table) {
  const auto addresses = plugins::addresses_of(result, ifname);
  std::vector<LinkRoute> out;
  for (const cni::Route& route : result.routes) {
    LinkRoute wanted = plugins::link_route(route, addresses);
    if (wanted.table == plugins::kMainTable) wanted.table = table;
    out.push_back(std::move(wanted));
  }
  return out;
}

std::vector<LinkRoute> missing_routes(plugins::Namespaces& sides, const Link& link,
                                      const std::vector<LinkRoute>& wanted) {
  const auto present = plugins::unicast_routes(sides.pod);
  std::vector<LinkRoute> out;
  for (const LinkRoute& one : wanted) {
    const bool is_present = std::ranges::any_of(present, [&](const LinkRoute& seen) {
      return seen.link == link.index && seen.table == one.table && seen.dst == one.dst.network() &&
             (!one.gateway || seen.gateway == one.gateway);
    });
    if (!is_present) out.push_back(one);
  }
  return out;
}

// Whether it is the VRF of the state, under whatever name.
bool is_vrf_of(const Link& link, const State& state) { return table_of(link) == state.table; }

std::optional<Link> find_interface(RouteSocket& pod, const State& state) {
  auto link = pod.find(state.owner.key.ifname);
  return link ? link : pod.find(state.index);
}

}  // namespace

void join(plugins::Namespaces& sides, const Conf& conf, cni::Undo& undo) {
  const StateDir states = StateDir::create();
  const auto lock = plugins::lock_route_tables();
  const Link link = interface_of(sides);
  auto vrf = find_vrf(sides.pod, conf);
  require_free(sides.pod, link, vrf);
  const auto earlier = earlier_state(sides, states);
  const bool is_repeated = earlier && vrf && earlier->vrf == vrf->name;
  State state{.owner = plugins::state_owner(sides.request, sides.pod),
              .vrf = conf.name,
              .table = vrf ? table_of(*vrf) : choose_table(sides, conf),
              .index = link.index};
  state.keeps_vrf = is_repeated ? earlier->keeps_vrf : vrf && is_of_pod(sides, states, *vrf, link);
  const Baggage baggage = pack(sides, link, earlier, state);
  plugins::put_state(states, earlier, state, undo);
  if (!vrf) vrf = create_vrf(sides, state, undo);
  if (!vrf->up) sides.pod.send(netlink::set_link(*vrf, {.up = true}));
  const Domain domain{vrf->index, state.table};
  const plugins::PodInterface interface { sides, link };
  if (link.master != vrf->index) enter(interface, domain, baggage, undo);
  if (earlier) complete(interface, domain, baggage_of(state));
}

void check_membership(plugins::Namespaces& sides, const Conf& conf) {
  const Link vrf = require_vrf(sides, conf);
  const auto link = sides.pod.find(sides.request.ifname);
  if (!link || link->master != vrf.index) {
    throw cni::Error(Code::kInternal,
                     cat("failed to find ", sides.request.ifname, " associated to vrf ", conf.name),
                     link ? "it is no member" : "the pod has no such interface");
  }
  if (!vrf.up) throw cni::Error(Code::kInternal, cat("VRF ", conf.name, " is down"));
}

void check_routing(plugins::Namespaces& sides, const Conf& conf, const cni::Result& result) {
  const Link link = interface_of(sides);
  const std::uint32_t table = table_of(require_vrf(sides, conf));
  const auto addresses = missing_addresses(sides, link, result);
  if (!addresses.empty()) {
    throw cni::Error(Code::kInternal, cat("interface ", link.name, " does not have the address ",
                                          addresses.front().str()));
  }
  const auto missing = missing_routes(sides, link, wanted_routes(result, link.name, table));
  if (missing.empty()) return;
  const LinkRoute& first = missing.front();
  throw cni::Error(
      Code::kInternal,
      cat("table ", first.table, " of VRF ", conf.name, " has no route to ", first.dst.str(),
          first.gateway ? cat(" via ", first.gateway->str()) : "", " on '", link.name, "'"));
}

void add_missing(plugins::Namespaces& sides, const Conf& conf, const cni::Result& result) {
  const Link link = interface_of(sides);
  const bool no_dad = link.ipv6 && link.ipv6->accept_dad == 0;
  for (const netlink::Cidr& one : missing_addresses(sides, link, result)) {
    sides.pod.send(netlink::add(link, netlink::NewAddress{.cidr = one, .no_dad = no_dad}));
  }
  if (!no_dad && link.up) plugins::wait_for_dad({sides, link});
  const auto wanted = wanted_routes(result, link.name, table_of(require_vrf(sides, conf)));
  for (const LinkRoute& one : missing_routes(sides, link, wanted)) {
    sides.pod.send(netlink::add(link, one));
  }
}

void leave(plugins::Namespaces& sides, const State& state) {
  RouteSocket& pod = sides.pod;
  const auto link = find_interface(pod, state);
  auto vrf = link && link->master != 0 ? pod.find(link->master) : std::nullopt;
  if (vrf && is_vrf_of(*vrf, state)) {
    release({sides, *link}, {vrf->index, state.table}, baggage_of(state));
  } else {
    if (link && link->master == 0) complete({sides, *link}, Domain{}, baggage_of(state));
    vrf = pod.find(state.vrf);
  }
  if (vrf && is_vrf_of(*vrf, state) && !state.keeps_vrf) remove_if_empty(pod, *vrf);
}

void leave_named(plugins::Namespaces& sides, const Link& link, const std::string& name) {
  if (name.empty()) return;
  const auto vrf = sides.pod.find(name);
  if (!vrf || table_of(*vrf) == 0 || link.master != vrf->index) return;
  release({sides, link}, {vrf->index, table_of(*vrf)}, {});
  remove_if_empty(sides.pod, *vrf);
}

}  // namespace vrf

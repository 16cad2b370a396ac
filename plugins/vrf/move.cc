#include "plugins/vrf/move.h"

#include <algorithm>
#include <tuple>

#include "libcni/common/phase.h"
#include "netlink/route/stored_route.h"
#include "netlink/sysctl.h"
#include "plugins/common/link/route_tables.h"
#include "plugins/common/link/veth_pair.h"

namespace vrf {

namespace {

using cni::cat;
using netlink::Link;
using netlink::LinkAddress;
using netlink::NetNs;
using netlink::RouteCopy;
using netlink::RouteSocket;
using plugins::PodInterface;

std::optional<Ipv6State> settings_of(const Link& link) {
  if (!link.ipv6) return std::nullopt;
  return Ipv6State{.keep_addr_on_down = link.ipv6->keep_addr_on_down,
                   .accept_dad = link.ipv6->accept_dad};
}

// Settings of IPv6 while an interface is moved: the kernel keeps its addresses, and does not look
// for duplicates again on the segment where it found none. Where they cannot be written, addresses
// are added again, and looked for.
class Settings {
 public:
  Settings(const PodInterface& interface, const std::optional<Ipv6State>& before)
      : interface_(interface), now_(settings_of(interface.link)), before_(before) {}
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;
  ~Settings() {
    cni::noting_failure("restore settings", [this] { restore(); });
  }

  void change() {
    if (!now_) return;
    for (const auto& [key, now, wanted] : {Row("keep_addr_on_down", now_->keep_addr_on_down, 1),
                                           Row("accept_dad", now_->accept_dad, 0)}) {
      if (now == wanted) continue;
      const NetNs::Entered entered(interface_.sides.pod_ns);
      if (netlink::try_sysctl(path_of(key), std::to_string(wanted))) now = wanted;
    }
  }

  // \throws netlink::Error.
  void restore() {
    if (!now_ || !before_) return;
    for (const auto& [key, now, wanted] :
         {Row("keep_addr_on_down", now_->keep_addr_on_down, before_->keep_addr_on_down),
          Row("accept_dad", now_->accept_dad, before_->accept_dad)}) {
      if (now == wanted) continue;
      const NetNs::Entered entered(interface_.sides.pod_ns);
      netlink::write_sysctl(path_of(key), std::to_string(wanted));
      now = wanted;
    }
  }

 private:
  using Row = std::tuple<const char*, int&, int>;
  std::string path_of(const char* key) const {
    return cat("net/ipv6/conf/", interface_.link.name, "/", key);
  }
  const PodInterface& interface_;
  std::optional<Ipv6State> now_, before_;
};

void set_master(const PodInterface& interface, int master) {
  interface.sides.pod.send(netlink::set_link(interface.link, {.master = master}));
}

void add_addresses(const PodInterface& interface, const Baggage& baggage) {
  std::vector<netlink::RouteRequest> requests;
  for (const LinkAddress& one : baggage.addresses) {
    requests.push_back(netlink::add_again(interface.link, one));
  }
  interface.sides.pod.send(std::move(requests));
}

void add_between(const PodInterface& interface, const std::vector<RouteCopy>& routes,
                 std::uint32_t from, std::uint32_t to) {
  std::vector<netlink::RouteRequest> requests;
  for (const RouteCopy& route : routes) {
    const std::uint32_t table = route.route.table;
    if (table == from && from != to) {
      requests.push_back(netlink::add(route, to));
      continue;
    }
    for (netlink::RouteRequest& one : netlink::restore(route)) requests.push_back(std::move(one));
  }
  interface.sides.pod.send(std::move(requests));
}

// The kernel keeps next hops of routes that have others, as dead as long as the interface is down
// (fib6_ifdown() in net/ipv6/route.c, fib_sync_down_dev() in net/ipv4/fib_semantics.c).
void take_parts(const PodInterface& interface, const std::vector<RouteCopy>& routes) {
  std::vector<netlink::RouteRequest> requests;
  for (const RouteCopy& route : routes) {
    if (!route.is_part) continue;
    for (netlink::RouteRequest& one : netlink::remove(route)) requests.push_back(std::move(one));
  }
  interface.sides.pod.send(std::move(requests));
}

// Waits neither for addresses that were unusable before nor on an interface that is down: the
// kernel looks for duplicates once it is up (addrconf_dad_begin() in net/ipv6/addrconf.c).
void wait_for_addresses(const PodInterface& interface, const Baggage& baggage) {
  const auto& addresses = baggage.addresses;
  if (!interface.link.up) return;
  const auto is_unusable = [](const LinkAddress& one) { return one.tentative || one.dad_failed; };
  if (addresses.empty() || std::ranges::any_of(addresses, is_unusable)) return;
  plugins::wait_for_dad(interface);
}

void wait_for_carrier(const PodInterface& interface) {
  if (interface.link.oper_state != netlink::OperState::kUp) return;
  plugins::wait_until_up(interface.sides.pod, interface.link);
}

void carry(const PodInterface& interface, const Baggage& baggage, const Domain& to) {
  Settings settings(interface, baggage.ipv6);
  settings.change();
  if (to.master != 0) take_parts(interface, baggage.routes);
  set_master(interface, to.master);
  add_addresses(interface, baggage);
  wait_for_carrier(interface);
  wait_for_addresses(interface, baggage);
  add_between(interface, baggage.routes, plugins::kMainTable, to.table);
  settings.restore();
}

// Undo step of ADD. Borrows the request, which outlives the Undo.
struct MoveBack {
  std::reference_wrapper<const cni::Request> request;
  NetNs ns;
  Link link;
  Baggage baggage;
  void operator()() const {
    plugins::Namespaces sides(request, ns);
    carry({sides, link}, baggage, Domain{});
  }
  std::string describe() const { return cat("move '", link.name, "' back"); }
};

}  // namespace

Baggage baggage_of(RouteSocket& pod, const Link& link, std::uint32_t table) {
  Baggage out{.addresses = pod.addresses(link, netlink::Family::kIpv6),
              .routes = plugins::routes_by(pod, link),
              .ipv6 = settings_of(link)};
  std::erase_if(out.routes, [table](const RouteCopy& one) {
    return plugins::is_learned(one.route) || (one.is_part && one.route.table != table);
  });
  return out;
}

Baggage baggage_of(const State& state) {
  Baggage out{.ipv6 = state.ipv6};
  for (const std::string& text : state.routes) {
    if (auto route = netlink::route_from_stored(text)) out.routes.push_back(*std::move(route));
  }
  plugins::gateways_last(out.routes);
  return out;
}

void enter(const PodInterface& interface, const Domain& vrf, const Baggage& baggage,
           cni::Undo& undo) {
  const cni::Phase phase("move");
  undo.add(MoveBack{interface.sides.request, interface.sides.pod_ns, interface.link, baggage});
  carry(interface, baggage, vrf);
}

void release(const PodInterface& interface, const Domain& vrf, const Baggage& before) {
  const Baggage baggage = baggage_of(interface.sides.pod, interface.link, vrf.table);
  Settings settings(interface, before.ipv6 ? before.ipv6 : baggage.ipv6);
  settings.change();
  take_parts(interface, baggage.routes);
  set_master(interface, 0);
  const std::string what = cat("release '", interface.link.name, "'");
  cni::noting_failure(what, [&] { add_addresses(interface, baggage); });
  try {
    wait_for_addresses(interface, baggage);
  } catch (const cni::Error& e) {
    cni::note(cat(what, ": ", e.what()));
  }
  cni::noting_failure(
      what, [&] { add_between(interface, baggage.routes, vrf.table, plugins::kMainTable); });
  cni::noting_failure(what, [&] {
    add_between(interface, before.routes, plugins::kMainTable, plugins::kMainTable);
  });
  settings.restore();
}

void complete(const PodInterface& interface, const Domain& domain, const Baggage& before) {
  cni::noting_failure(cat("restore routes of '", interface.link.name, "'"), [&] {
    auto missing = before.routes;
    const auto present = plugins::all_routes(interface.sides.pod);
    std::erase_if(missing, [&](const RouteCopy& one) {
      const std::uint32_t table = one.route.table;
      const bool is_main = table == plugins::kMainTable;
      return plugins::has_route(present, one.route, is_main ? domain.table : table);
    });
    add_between(interface, missing, plugins::kMainTable, domain.table);
  });
  Settings(interface, before.ipv6).restore();
}

}  // namespace vrf

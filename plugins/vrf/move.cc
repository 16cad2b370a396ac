#include "plugins/vrf/move.h"

#include <algorithm>

#include "libcni/common/phase.h"
#include "netlink/sysctl.h"
#include "plugins/common/route_tables.h"
#include "plugins/common/veth_pair.h"

namespace vrf {

namespace {

using cni::cat;
using netlink::Link;
using netlink::LinkAddress;
using netlink::NetNs;
using netlink::RouteCopy;
using netlink::RouteSocket;
using plugins::PodInterface;

// linux/rtnetlink.h: RTPROT_REDIRECT, RTPROT_RA.
constexpr std::uint8_t kRedirect = 1;
constexpr std::uint8_t kRouterAdvertisement = 9;

bool is_learned(const netlink::LinkRoute& route) {
  return route.protocol == kRedirect || route.protocol == kRouterAdvertisement;
}

// net.ipv6.conf.LINK.keep_addr_on_down while this is alive. Where it cannot be written the
// addresses are added again.
class KeepAddresses {
 public:
  KeepAddresses(const NetNs& ns, const Link& link)
      : ns_(ns),
        key_(cat("net/ipv6/conf/", link.name, "/keep_addr_on_down")),
        before_(link.ipv6 ? link.ipv6->keep_addr_on_down : 1) {
    if (before_ != 1) set(1);
  }
  KeepAddresses(const KeepAddresses&) = delete;
  KeepAddresses& operator=(const KeepAddresses&) = delete;
  ~KeepAddresses() {
    if (before_ != 1) set(before_);
  }

 private:
  void set(int value) const {
    const NetNs::Entered entered(ns_);
    netlink::try_write_sysctl(key_, std::to_string(value));
  }
  const NetNs& ns_;
  std::string key_;
  int before_;
};

void set_master(const PodInterface& interface, int master) {
  const KeepAddresses keep(interface.ns, interface.link);
  interface.pod.send(netlink::set_link(interface.link, {.master = master}));
}

void add_addresses(const PodInterface& interface, const Baggage& baggage) {
  std::vector<netlink::RouteRequest> requests;
  for (const LinkAddress& one : baggage.addresses) {
    requests.push_back(netlink::add_again(interface.link, one));
  }
  interface.pod.send(std::move(requests));
}

void add_routes(const PodInterface& interface, const Baggage& baggage, std::uint32_t from,
                std::uint32_t to) {
  std::vector<netlink::RouteRequest> requests;
  for (const RouteCopy& one : baggage.routes) {
    const std::uint32_t table = one.route.table;
    requests.push_back(netlink::add(one, table == from ? to : table));
  }
  interface.pod.send(std::move(requests));
}

// Those that were not usable before are not waited for.
void wait_until_usable(const PodInterface& interface, const Baggage& baggage) {
  if (interface.link.oper_state == netlink::OperState::kUp) {
    plugins::wait_until_up(interface.pod, interface.link);
  }
  const auto& addresses = baggage.addresses;
  if (addresses.empty() || std::any_of(addresses.begin(), addresses.end(), [](const auto& one) {
        return one.tentative || one.dad_failed;
      })) {
    return;
  }
  plugins::wait_for_dad(interface);
}

void carry(const PodInterface& interface, const Baggage& baggage, const Domain& from,
           const Domain& to) {
  set_master(interface, to.master);
  add_addresses(interface, baggage);
  wait_until_usable(interface, baggage);
  add_routes(interface, baggage, from.table, to.table);
}

// Undo step of ADD.
struct MoveBack {
  NetNs ns;
  Link link;
  Baggage baggage;
  Domain domain;
  void operator()() const {
    RouteSocket pod(ns);
    carry({pod, ns, link}, baggage, domain, domain);
  }
  std::string describe() const { return cat("move '", link.name, "' back"); }
};

}  // namespace

Baggage baggage_of(RouteSocket& pod, const Link& link) {
  Baggage out{.addresses = pod.addresses(link, netlink::Family::kIpv6),
              .routes = plugins::all_routes(pod)};
  std::erase_if(out.routes, [&](const RouteCopy& one) {
    return is_learned(one.route) || !plugins::leads_by(one.route, link);
  });
  plugins::gateways_last(out.routes);
  return out;
}

void move(const PodInterface& interface, const Domain& from, const Domain& to, cni::Undo& undo) {
  const cni::Phase phase("move");
  const Baggage baggage = baggage_of(interface.pod, interface.link);
  undo.add(MoveBack{interface.ns, interface.link, baggage, from});
  carry(interface, baggage, from, to);
}

void release(const PodInterface& interface, const Domain& from) {
  const Baggage baggage = baggage_of(interface.pod, interface.link);
  set_master(interface, 0);
  const std::string what = cat("release '", interface.link.name, "'");
  cni::noting_failure(what, [&] { add_addresses(interface, baggage); });
  cni::noting_failure(what, [&] { add_routes(interface, baggage, from.table, Domain{}.table); });
}

}  // namespace vrf

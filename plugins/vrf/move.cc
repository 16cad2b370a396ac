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

// Settings of IPv6 while an interface is moved: the kernel keeps its addresses, and does not look
// for duplicates again on the segment where it found none. Where they cannot be written, addresses
// are added again, and looked for.
class Meanwhile {
 public:
  explicit Meanwhile(const PodInterface& interface) : interface_(interface) {
    if (interface.link.ipv6) set(1, 0);
  }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;
  ~Meanwhile() {
    const auto& before = interface_.link.ipv6;
    if (before) set(before->keep_addr_on_down, before->accept_dad);
  }

 private:
  void set(int keep_addr_on_down, int accept_dad) const {
    const auto& before = *interface_.link.ipv6;
    const NetNs::Entered entered(interface_.ns);
    const std::string dir = cat("net/ipv6/conf/", interface_.link.name, "/");
    if (before.keep_addr_on_down != 1) {
      netlink::try_write_sysctl(dir + "keep_addr_on_down", std::to_string(keep_addr_on_down));
    }
    if (before.accept_dad != 0) {
      netlink::try_write_sysctl(dir + "accept_dad", std::to_string(accept_dad));
    }
  }
  const PodInterface& interface_;
};

void set_master(const PodInterface& interface, int master) {
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

// Those that could not be used before are not waited for.
void wait_for_addresses(const PodInterface& interface, const Baggage& baggage) {
  const auto& addresses = baggage.addresses;
  const auto is_unusable = [](const LinkAddress& one) { return one.tentative || one.dad_failed; };
  if (addresses.empty() || std::any_of(addresses.begin(), addresses.end(), is_unusable)) return;
  plugins::wait_for_dad(interface);
}

void wait_for_carrier(const PodInterface& interface) {
  if (interface.link.oper_state != netlink::OperState::kUp) return;
  plugins::wait_until_up(interface.pod, interface.link);
}

void carry(const PodInterface& interface, const Baggage& baggage, const Domain& from,
           const Domain& to) {
  const Meanwhile meanwhile(interface);
  set_master(interface, to.master);
  add_addresses(interface, baggage);
  wait_for_carrier(interface);
  wait_for_addresses(interface, baggage);
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
  const Meanwhile meanwhile(interface);
  set_master(interface, 0);
  const std::string what = cat("release '", interface.link.name, "'");
  cni::noting_failure(what, [&] { add_addresses(interface, baggage); });
  try {
    wait_for_addresses(interface, baggage);
  } catch (const cni::Error& e) {
    cni::note(cat(what, ": ", e.what()));
  }
  cni::noting_failure(what, [&] { add_routes(interface, baggage, from.table, Domain{}.table); });
}

}  // namespace vrf

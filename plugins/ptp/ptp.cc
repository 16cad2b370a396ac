#include <algorithm>
#include <optional>

#include "libcni/common/undo.h"
#include "libcni/plugin/ipam.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "plugins/common/firewall/ip_masq.h"
#include "plugins/common/link/addresses.h"
#include "plugins/common/link/host_veth.h"
#include "plugins/common/link/interface.h"
#include "plugins/common/link/ipam_keys.h"
#include "plugins/common/link/link_keys.h"
#include "plugins/common/link/owned_links.h"
#include "plugins/common/link/pod_link.h"
#include "plugins/common/link/veth_pair.h"
#include "plugins/ptp/facts.h"
#include "plugins/ptp/host_side.h"
#include "plugins/ptp/routing.h"

namespace ptp {

namespace {

using cni::cat;
using cni::Result;
using netlink::Capability;
using netlink::Link;
using plugins::Namespaces;
using plugins::VethPair;

constexpr std::size_t kInside = 1;  // where the pod's interface stands in the result

struct Conf {
  bool ip_masq = false;
  std::optional<plugins::MasqueradeBackend> ip_masq_backend;  ///< absent: detected
  std::vector<netlink::Cidr> ip_masq_except;                  ///< destinations
  unsigned mtu = 0;                                           ///< bytes; 0 is the kernel's default
  std::string ipam_type;
  std::optional<cni::Dns> dns;  ///< replaces the IPAM plugin's
  bool ignore_default_route = false;

  static Conf parse(const cni::Request& request);
};

constexpr auto kKeys = cni::keys(
    plugins::ip_masq_key<Conf>(), plugins::ip_masq_backend_key<Conf>(),
    plugins::ip_masq_except_key<Conf>(),
    plugins::mtu_key<Conf>(
        "MTU in bytes of both interfaces of the veth pair; 0 is the kernel's default"),
    plugins::ipam_key<Conf>(), plugins::dns_key<Conf>(), plugins::ignore_default_route_key<Conf>());

constinit const cni::Manual kManual{
    .purpose = "connects each pod to the node with a veth pair of its own, without a bridge",
    .keys = kKeys,
    .facts = kFacts};

Conf Conf::parse(const cni::Request& request) {
  const cni::Reader root = request.reader();
  Conf conf;
  cni::read_keys(root, kKeys, conf);
  if (conf.ipam_type.empty()) {
    throw cni::Error(cni::Code::kInvalidConfig, "no plugin name provided",
                     "ipam.type: ptp needs an IPAM plugin, expected the name of an IPAM plugin");
  }
  if (conf.ip_masq) plugins::refuse_unknown_backend(root);
  plugins::require_exceptions_fit(root, conf.ip_masq, conf.ip_masq_backend);
  return conf;
}

// Addresses first, as in the reference: then it is known what the pair needs.
Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);  // all of the input before any change
  cni::find_ipam(request, conf.ipam_type);
  Namespaces sides(request);
  if (conf.ip_masq) plugins::require_masquerade_rights(request, conf.ip_masq_backend);

  plugins::require_no_interface(sides);  // undo would release what an earlier ADD got
  Result result = plugins::request_addresses(
      request, {conf.ipam_type, conf.ignore_default_route, kInside}, undo);
  choose_gateways(result);
  const Routing routing = routing_of(result, request.ifname);
  const VethPair pair = plugins::create_veth_pair(sides, {.mtu = conf.mtu}, undo);
  result.interfaces = {plugins::describe(pair.outside),
                       plugins::describe(pair.inside, request.netns)};
  // The node's side first: as the pod's comes up the kernel announces its addresses to the node.
  open_host_veth(sides.host(), pair.outside, routing, plugins::owner_of(request).text);
  plugins::configure_interface({sides, pair.inside}, result,
                               {.accept_ra = false, .subnet_routes = routing.pod});
  if (conf.ip_masq) {
    plugins::masquerade(conf.ip_masq_backend,
                        plugins::masquerade_of(request, result, conf.ip_masq_except), undo);
  }
  // Until then the kernel drops packets of the interface and has no IPv6 multicast on it.
  plugins::require_operational(sides.host(), pair.outside, "host veth in error state");
  plugins::require_operational(sides.pod, pair.inside, "container interface in error state");
  if (conf.dns) result.dns = *conf.dns;
  return result;
}

// The gateway addresses and routes of the node go with the host veth.
void del(const cni::Request& request) { plugins::delete_veth_pair(request); }

VethPair find_pair(Namespaces& sides, const Result& result) {
  const Link inside =
      plugins::find_interface(sides, result,
                              {.kind = "veth",
                               .type = "veth/p2p",
                               .missing = "ptp: Container Interface name in prevResult: ",
                               .mac = "ptp: Interface"});
  const auto outside = plugins::host_veth_of(sides, inside);
  if (!outside) {
    throw cni::Error(cni::Code::kInternal,
                     cat("the host veth of '", inside.name, "' was not found"));
  }
  const cni::Interface& entry = plugins::entry_of(result, outside->name);
  if (!plugins::has_mac_of(entry, *outside)) {
    throw cni::Error(cni::Code::kInternal, cat("Interface ", outside->name, " Mac doesn't match: ",
                                               entry.mac, ", it has ", outside->mac.str()));
  }
  return {*outside, inside};
}

// The gateway of the address whose subnet or gateway the route leads to; none as Go prints it.
std::string gateway_to(const netlink::LinkRoute& route, const std::vector<cni::Address>& all) {
  for (const cni::Address& one : all) {
    if (one.gateway && (one.cidr.network() == route.dst || *one.gateway == route.dst.ip)) {
      return one.gateway->str();
    }
  }
  return "<nil>";
}

// The pod's routes in place of those of the kernel. Where they lead is the gateway's alone, as of
// two gateways in one subnet the reference plugin takes the other one.
void check_routes(const plugins::PodInterface& inside, const Routing& routing,
                  const Result& result) {
  const auto addresses = plugins::addresses_of(result, inside.link.name);
  for (const netlink::Family family : netlink::kFamilies) {
    if (!routing.has(family)) continue;
    const auto present = plugins::routes_as_made(inside, family, addresses);
    for (const netlink::LinkRoute& wanted : routing.pod) {
      if (wanted.dst.ip.family() != family) continue;
      if (std::ranges::none_of(present, [&](const netlink::LinkRoute& one) {
            return one.dst == wanted.dst && one.table == wanted.table &&
                   one.link == inside.link.index;
          })) {
        throw cni::Error(cni::Code::kInternal,
                         cat("Failed to find Gateway ", gateway_to(wanted, addresses),
                             " for interface ", inside.link.name),
                         cat("expected route ", wanted.dst.str()));
      }
    }
  }
}

// \throws cni::Error naming the first difference to what ADD created.
void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  Namespaces sides(request);
  if (conf.ip_masq) cni::require_capabilities(request, {Capability::kNetAdmin});  // to read rules
  Result result = request.required_prev_result("ptp: Required prevResult missing");
  cni::ipam_forward(request, conf.ipam_type, cni::Command::kCheck);
  plugins::keep_own(result, request);
  choose_gateways(result);
  const Routing routing = routing_of(result, request.ifname);
  const auto [outside, inside] = find_pair(sides, result);
  if (!inside.up)
    throw cni::Error(cni::Code::kInternal, cat("Interface ", inside.name, " is down"));
  for (const Link& link : {outside, inside}) plugins::require_mtu_of(link, conf.mtu);
  const plugins::PodInterface interface { sides, inside };
  plugins::check_interface(interface, result);
  check_routes(interface, routing, result);
  check_host_veth(sides.host(), outside, routing);
  if (conf.ip_masq)
    plugins::check_masquerade(plugins::masquerade_of(request, result, conf.ip_masq_except));
}

// Removes everything of this network whose attachment is not in the list, and calls GC of the IPAM
// plugin.
void gc(const cni::Request& request, cni::Collect& collect) {
  plugins::collect_veth_pairs(request, collect);
}

// \throws cni::Error(kPluginUnavailable) naming the part that ADD needs and the node lacks.
void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  if (conf.ip_masq) plugins::require_masquerade_support(request, conf.ip_masq_backend);
  plugins::require_pod_link_support(request, "veth", conf.ipam_type);
}

void validate(const cni::Request& request) { Conf::parse(request); }

VethPair require_pair(Namespaces& sides, const Result& result) try {
  return find_pair(sides, result);
} catch (const cni::Error& e) {
  plugins::restart_hint(e);
}

// The container interface must exist and is not changed: it would go with either end.
Result repair(const cni::Request& request, cni::Repair& repair) {
  const Conf conf = Conf::parse(request);
  Result result = request.required_prev_result();
  Namespaces sides(request);
  if (conf.ip_masq) plugins::require_masquerade_rights(request, conf.ip_masq_backend);
  Result complete = result;
  plugins::keep_own(complete, request);
  const Result own = complete;
  choose_gateways(complete);
  const Routing routing = routing_of(complete, request.ifname);
  const VethPair pair = require_pair(sides, result);
  repair.part([&] { check_host_veth(sides.host(), pair.outside, routing); },
              [&] {
                open_host_veth(sides.host(), pair.outside, routing,
                               plugins::owner_of(request).text);
              });
  if (conf.ip_masq) {
    plugins::repair_masquerade(repair, conf.ip_masq_backend,
                               plugins::masquerade_of(request, own, conf.ip_masq_except));
  }
  cni::ipam_repair(request, conf.ipam_type, repair);
  return result;
}

void migrate(const cni::Request& request, cni::Repair& repair) {
  const Conf conf = Conf::parse(request);
  std::optional<plugins::Masquerade> masquerade;
  if (conf.ip_masq) {
    plugins::require_masquerade_rights(request, conf.ip_masq_backend);
    masquerade =
        plugins::masquerade_of(request, request.required_prev_result(), conf.ip_masq_except);
  }
  plugins::migrate_veth_pair(request, repair, conf.ip_masq_backend, masquerade);
}

}  // namespace

extern constinit const cni::Plugin kPlugin{
    .name = "ptp",
    .verbs = {add, del, check, gc, status, validate, repair, nullptr, migrate},
    .manual = &kManual};

}  // namespace ptp

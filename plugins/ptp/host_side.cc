#include "plugins/ptp/host_side.h"

#include <cerrno>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "plugins/common/link/gateway.h"
#include "plugins/common/link/veth_pair.h"

namespace ptp {

namespace {

using cni::cat;
using cni::Cidr;
using netlink::Family;
using netlink::Link;
using netlink::RouteSocket;

// The link-local address that the kernel would choose (RFC 4291, appendix A). The node looks for
// the pod's neighbour entry from it; the kernel's own one would be mute for a second, in which
// duplicate address detection runs.
Cidr link_local(const netlink::Mac& mac) {
  const auto& m = mac.bytes;
  const std::uint8_t bytes[16] = {
      0xfe, 0x80, 0,    0,    0,    0,    0,   0, static_cast<std::uint8_t>(m[0] ^ 2U),
      m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
  return {cni::Ip::from_bytes(bytes, sizeof bytes), 64};
}

netlink::RouteRequest address(const Link& outside, const Cidr& cidr) {
  auto request = netlink::add(outside, netlink::NewAddress{.cidr = cidr, .no_dad = true});
  request.tolerated = {EEXIST};
  return request;
}

// The kernel is asked for the route of a packet, because any rule or table may decide it. As its
// table has it: for the path of a packet the kernel compares the IPv6 addresses of all links.
void require_route(RouteSocket& host, const Link& outside, const cni::Ip& pod) {
  const auto found = host.match(pod);
  if (found && found->route.link == outside.index) return;
  const auto other = found ? host.find(found->route.link) : std::nullopt;
  throw cni::Error(cni::Code::kInternal,
                   cat("no route to ", pod.str(), " on '", outside.name, "'",
                       other ? cat(": the node routes it to '", other->name, "'") : std::string()),
                   found && found->local ? "the node itself has the address" : "");
}

std::vector<netlink::RouteRequest> requests_for(const Link& outside, const Routing& routing,
                                                const std::string& alias) {
  std::vector<netlink::RouteRequest> out{netlink::without_link_local(outside),
                                         netlink::set_link(outside, {.up = true, .alias = alias})};
  if (routing.has(Family::kIpv6)) out.push_back(address(outside, link_local(outside.mac)));
  for (const Cidr& gateway : routing.gateways) out.push_back(address(outside, gateway));
  for (const auto& route : routing.node) out.push_back(netlink::add(outside, route));
  return out;
}

}  // namespace

void open_host_veth(RouteSocket& host, const Link& outside, const Routing& routing,
                    const std::string& alias) {
  const cni::Phase phase("gateway");
  plugins::ignore_router_advertisements(outside);
  for (const Family family : netlink::kFamilies) {
    if (routing.has(family)) plugins::enable_forwarding(host, family);
  }
  try {
    host.send(requests_for(outside, routing, alias));
  } catch (const netlink::Error& e) {
    if (e.error() != EEXIST) throw;  // of a route: this link's own one, or that of another pod
    for (const auto& route : routing.node) require_route(host, outside, route.dst.ip);
  }
}

void check_host_veth(RouteSocket& host, const Link& outside, const Routing& routing) {
  const auto differs = [](const std::string& what) {
    return cni::Error(cni::Code::kInternal, what);
  };
  if (!outside.up) throw differs(cat("host veth '", outside.name, "' is down"));
  plugins::check_gateway_addresses(host, outside, routing.gateways);
  for (const auto& route : routing.node) require_route(host, outside, route.dst.ip);
  for (const Family family : netlink::kFamilies) {
    if (routing.has(family)) plugins::check_forwarding(host, family);
  }
}

}  // namespace ptp

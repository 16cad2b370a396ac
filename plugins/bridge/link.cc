#include "plugins/bridge/link.h"

#include <linux/rtnetlink.h>

#include <cerrno>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "netlink/sysctl.h"
#include "netlink/types/fd.h"
#include "plugins/common/link/owned_links.h"

namespace bridge {

namespace {

using cni::cat;
using netlink::Link;
using netlink::RouteSocket;

constexpr std::uint16_t kNativeVlan = 1;

Link create_bridge(RouteSocket& host, const Conf& conf, const std::optional<netlink::Mac>& mac) {
  // Its own MAC address from the start: it neither follows the ports' nor is changed by udev.
  auto request = netlink::add(netlink::Bridge{.name = conf.bridge,
                                              .mac = mac ? *mac : netlink::Mac::random(),
                                              .mtu = conf.mtu,
                                              .vlan_filtering = conf.vlan_filtering});
  request.tolerated = {EEXIST};  // another ADD was quicker
  try {
    host.send(std::move(request));
  } catch (const netlink::Error& e) {
    const auto refusal = cni::in_words(cat("could not add \"", conf.bridge, "\""), e);
    if (e.error() != EOPNOTSUPP || !conf.vlan_filtering) throw netlink::Error(refusal);
    throw cni::error_of(refusal,
                        "vlan and vlanTrunk need a kernel with CONFIG_BRIDGE_VLAN_FILTERING");
  }
  // The address that neighbours are asked from: with detection the first second of what is
  // forwarded to the first pod would be lost. Nobody else can have it, it follows from the MAC.
  netlink::try_sysctl(cat("net/ipv6/conf/", conf.bridge, "/accept_dad"), "0");
  return host.get(conf.bridge);
}

std::string vlan_port_name(const std::string& gateway) {
  return cat("veth", cni::sha512_hex(gateway, 8));
}

void create_vlan_gateway(RouteSocket& host, const Link& bridge, const Conf& conf) {
  auto request = netlink::add(
      netlink::Veth{.end = {.name = vlan_port_name(conf.vlan_gateway()),
                            .mac = netlink::Mac::random(),
                            .master = bridge.index},
                    .peer = {.name = conf.vlan_gateway(), .mac = netlink::Mac::random()},
                    .peer_ns = netlink::NetNs::current(),
                    .mtu = bridge.mtu});
  request.tolerated = {EEXIST};
  host.send(std::move(request));
}

// A bridge of another program takes the lowest MAC address of its ports, unless one was set
// (br_stp_recalculate_bridge_id() in net/bridge/br_stp_if.c). Only sysfs shows that.
bool follows_ports(const Link& bridge) try {
  const auto type =
      netlink::read_file(cat("/sys/devices/virtual/net/", bridge.name, "/addr_assign_type"));
  return type != "3\n";  // NET_ADDR_SET
} catch (const netlink::Error&) {
  return true;  // to set the address once more is harmless
}

// A bridge that follows its ports has no address without ports. Parallel ADDs choose the same one,
// and no other bridge of the segment has it.
netlink::Mac substitute_mac(const RouteSocket& host, const std::string& bridge) {
  const auto boot = netlink::read_file("/proc/sys/kernel/random/boot_id").value_or("");
  const std::string digits = cni::sha512_hex(cat(boot, ' ', host.cookie(), ' ', bridge), 10);
  std::string text = "02";  // locally administered
  for (std::size_t i = 0; i < digits.size(); i += 2) text += cat(":", digits.substr(i, 2));
  return *netlink::Mac::parse(text);
}

}  // namespace

bool carries_gateway(const Conf& conf) { return conf.is_gateway && conf.vlan == 0; }

void require_usable(const Link& bridge, const Conf& conf) {
  if (bridge.kind != "bridge") {
    throw cni::Error(cni::Code::kInvalidConfig,
                     cat("\"", bridge.name, "\" already exists but is not a bridge"),
                     bridge.kind.empty() ? "" : cat("it is of kind '", bridge.kind, "'"));
  }
  if (conf.vlan_filtering && !bridge.vlan_filtering) {
    throw cni::Error(cni::Code::kInvalidConfig,
                     cat("vlan: bridge '", bridge.name,
                         "' exists without VLAN filtering, so that VLANs would not be isolated"),
                     cat("enable it (ip link set ", bridge.name,
                         " type bridge vlan_filtering 1) or name another "
                         "bridge"));
  }
}

namespace {

Link find_or_create(RouteSocket& host, const Conf& conf, const std::optional<netlink::Mac>& mac) {
  auto found = host.find(conf.bridge);
  Link bridge = found ? *found : create_bridge(host, conf, mac);
  require_usable(bridge, conf);
  plugins::ignore_router_advertisements(bridge);  // before it is up
  netlink::LinkChange change;
  if (!bridge.up) change.up = true;
  if (conf.promisc_mode && !bridge.promiscuous) change.promiscuous = true;
  // The gateway's MAC address must not change for a moment, so it is set before the port joins.
  if (carries_gateway(conf) && (bridge.mac.is_zero() || follows_ports(bridge))) {
    if (bridge.mac.is_zero()) bridge.mac = mac ? *mac : substitute_mac(host, bridge.name);
    change.mac = bridge.mac;
  }
  if (change.up || change.promiscuous || change.mac) {
    host.send(netlink::set_link(bridge, change));
  }
  return bridge;
}

}  // namespace

Link ensure_bridge(RouteSocket& host, const Conf& conf, const std::optional<netlink::Mac>& mac) {
  const cni::Phase phase("bridge");
  return cni::during(cat("failed to create bridge \"", conf.bridge, "\""),
                     [&] { return find_or_create(host, conf, mac); });
}

std::vector<netlink::RouteRequest> port_vlans(const Link& port, const Link& bridge,
                                              const Conf& conf, bool with_trunk) {
  std::vector<netlink::RouteRequest> out;
  const bool trunk = with_trunk && !conf.trunk.empty();
  if (conf.vlan == 0 && !trunk) return out;
  if (!conf.preserve_default_vlan && bridge.default_pvid != 0) {
    auto request =
        netlink::remove_vlans(port, {{.first = bridge.default_pvid, .last = bridge.default_pvid}});
    request.tolerated = {ENOENT};
    out.push_back(std::move(request));
  }
  std::vector<netlink::PortVlan> vlans;
  if (trunk) vlans = conf.trunk;
  // The untagged one last: it must keep its flags where the trunk's ranges hold it too.
  const std::uint16_t untagged = conf.vlan != 0 ? conf.vlan : kNativeVlan;
  vlans.push_back({.first = untagged, .last = untagged, .pvid = true, .untagged = true});
  out.push_back(netlink::add_vlans(port, vlans));
  return out;
}

std::optional<Link> vlan_gateway_port(RouteSocket& host, const Link& gateway) {
  // The other end must be in this namespace: elsewhere its index says nothing about a link here.
  if (gateway.kind != "veth" || gateway.peer_nsid) return std::nullopt;
  auto port = host.find(gateway.peer_index);
  if (!port || port->kind != "veth") return std::nullopt;
  const bool is_port = port->master != 0;
  return is_port || port->name == vlan_port_name(gateway.name) ? port : std::nullopt;
}

Link ensure_vlan_gateway(RouteSocket& host, const Link& bridge, const Conf& conf) {
  const std::string name = conf.vlan_gateway();
  if (!host.find(name)) create_vlan_gateway(host, bridge, conf);
  const Link gateway = host.get(name);
  const auto port = vlan_gateway_port(host, gateway);
  std::vector<netlink::RouteRequest> requests;
  // Said again each time: who made the pair may have died before it came to this.
  if (port && (port->master == bridge.index || port->master == 0)) {
    plugins::ignore_router_advertisements(*port);
    if (port->master == 0) {  // a bridge that is deleted lets go of its ports
      requests.push_back(netlink::set_link(*port, {.master = bridge.index}));
    }
    for (auto& request : port_vlans(*port, bridge, conf, false)) {
      requests.push_back(std::move(request));
    }
    requests.push_back(netlink::set_link(*port, {.up = true}));
  }
  plugins::ignore_router_advertisements(gateway);
  if (!gateway.up) netlink::try_sysctl(cat("net/ipv6/conf/", name, "/accept_dad"), "0");
  requests.push_back(netlink::set_link(gateway, {.up = true}));
  host.send(requests);
  return gateway;
}

std::vector<cni::Cidr> gateways_of(const cni::Result& result) {
  std::vector<cni::Cidr> out;
  for (const cni::Address& address : result.ips) {
    if (!address.gateway) continue;
    const cni::Ip& gateway = *address.gateway;
    const bool has_subnet = !is_elsewhere(address) || (gateway.is_link_local() && !gateway.is_v4());
    out.push_back({gateway, has_subnet ? address.cidr.prefix : gateway.bits()});
  }
  return out;
}

bool is_elsewhere(const cni::Address& address) {
  return address.gateway && !address.cidr.contains(*address.gateway);
}

namespace {

// The routes are the bridge's, as its gateway addresses are: all pods of the subnet share them.
std::vector<netlink::RouteRequest> routes_to_subnets(const Link& device,
                                                     const cni::Result& result) {
  std::vector<netlink::RouteRequest> out;
  for (const cni::Address& address : result.ips) {
    if (!is_elsewhere(address)) continue;
    const std::uint8_t scope = address.cidr.ip.is_v4() ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
    out.push_back(netlink::add(device, {.dst = address.cidr.network(), .scope = scope}));
    out.back().tolerated = {EEXIST};
  }
  return out;
}

// A route to one pod would have to go with that pod.
void refuse_lone_addresses(const cni::Result& result) {
  for (const cni::Address& address : result.ips) {
    if (!is_elsewhere(address) || address.cidr.prefix != address.cidr.ip.bits()) continue;
    throw cni::Error(cni::Code::kInvalidConfig,
                     cat("isGateway: address ", address.cidr.str(),
                         " has no subnet that the bridge could be the gateway of"),
                     cat("its gateway is ", address.gateway->str(),
                         ": leave isGateway out if that is another host's, or use ptp, which "
                         "routes to each pod"));
  }
}

}  // namespace

Link ensure_gateway(const Context& context, const Link& bridge, const cni::Result& result,
                    plugins::OtherAddresses others) {
  const cni::Phase phase("gateway");
  const Conf& conf = context.conf;
  RouteSocket& host = context.sides.host();
  refuse_lone_addresses(result);
  const Link device = conf.vlan != 0 ? ensure_vlan_gateway(host, bridge, conf) : bridge;
  for (const auto family : netlink::kFamilies) {
    auto gateways = gateways_of(result);
    std::erase_if(gateways, [&](const cni::Cidr& one) { return one.ip.family() != family; });
    if (gateways.empty()) continue;
    plugins::ensure_gateway_addresses(host, device, gateways, others);
    plugins::enable_forwarding(host, family);
  }
  host.send(routes_to_subnets(device, result));
  return device;
}

void restore_routes(const Context& context, const Link& device, const cni::Result& result) {
  constexpr std::uint32_t kMetric = 256;  // of the kernel's own routes (IP6_RT_PRIO_ADDRCONF)
  RouteSocket& host = context.sides.host();
  for (const cni::Address& address : result.ips) {
    if (!address.gateway || is_elsewhere(address) || device.master != 0) continue;
    const auto path = host.path_to(address.cidr.ip);
    if (path && path->link == device.index) continue;
    const bool v4 = address.cidr.ip.is_v4();
    auto request = netlink::add(
        device, {.dst = address.cidr.network(),
                 .priority = v4 ? 0 : kMetric,
                 .scope = v4 ? std::uint8_t{RT_SCOPE_LINK} : std::uint8_t{RT_SCOPE_UNIVERSE},
                 .protocol = RTPROT_KERNEL,
                 .source = v4 ? address.gateway : std::nullopt,
                 .exclusive = true});
    request.tolerated = {EEXIST};
    host.send(std::move(request));
  }
}

Port connect_pod(const Context& context, const Link& bridge, cni::Undo& undo) {
  try {
    return plugins::create_veth_pair(
        context.sides, {.master = bridge.index, .mac = context.conf.mac, .mtu = context.conf.mtu},
        undo);
  } catch (const netlink::Error& e) {
    if (e.error() != EXFULL) throw;
    throw cni::error_of(e,
                        cat("bridge '", bridge.name,
                            "' has all the ports the kernel allows (1023); use a second bridge"));
  }
}

void open_port(const Context& context, const Port& port, const Link& bridge) {
  auto requests = port_vlans(port.outside, bridge, context.conf, true);
  if (context.conf.hairpin_mode || context.conf.port_isolation) {  // a new port has neither
    requests.push_back(netlink::set_port(port.outside, {.hairpin = context.conf.hairpin_mode,
                                                        .isolated = context.conf.port_isolation}));
  }
  requests.push_back(netlink::without_link_local(port.outside));
  requests.push_back(netlink::set_link(
      port.outside, {.up = true, .alias = plugins::owner_of(context.sides.request).text}));
  context.sides.host().send(requests);
}

void restore_port(const Context& context, const Port& port, const Link& bridge) {
  const Conf& conf = context.conf;
  const Link& outside = port.outside;
  plugins::ignore_router_advertisements(outside);
  std::vector<netlink::RouteRequest> requests;
  if (outside.master != bridge.index) {
    requests.push_back(netlink::set_link(outside, {.master = bridge.index}));
  }
  // The flags before the VLANs: an isolated port is not to see its neighbours first.
  requests.push_back(
      netlink::set_port(outside, {.hairpin = conf.hairpin_mode, .isolated = conf.port_isolation}));
  for (auto& request : port_vlans(outside, bridge, conf, true)) {
    requests.push_back(std::move(request));
  }
  requests.push_back(netlink::set_link(
      outside, {.up = true, .alias = plugins::owner_of(context.sides.request).text}));
  context.sides.host().send(requests);
  if (!conf.disable_container_interface) wait_for_port(context.sides.host(), outside);
}

void wait_for_port(RouteSocket& host, const Link& outside) {
  plugins::require_operational(host, outside, "bridge port in error state");
}

}  // namespace bridge

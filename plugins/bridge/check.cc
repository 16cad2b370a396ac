#include "plugins/bridge/check.h"

#include <algorithm>

#include "plugins/bridge/link.h"
#include "plugins/bridge/macspoof.h"
#include "plugins/common/firewall/ip_masq.h"
#include "plugins/common/link/gateway.h"
#include "plugins/common/link/host_veth.h"
#include "plugins/common/link/interface.h"
#include "plugins/common/link/pod_link.h"

namespace bridge {

namespace {

using cni::cat;
using netlink::Link;

cni::Error differs(const std::string& what, const std::string& details = {}) {
  return {cni::Code::kInternal, what, details};
}

// The messages are the reference plugin's; absent is the one for a result without the link.
cni::Interface node_entry(const cni::Result& result, const std::string& name,
                          const std::string& absent) {
  const cni::Interface* found = nullptr;
  for (const cni::Interface& one : result.interfaces) {
    if (one.name != name) continue;
    if (one.sandbox.empty()) return one;
    found = &one;
  }
  if (found == nullptr) {
    throw differs(absent, cat("prevResult has no interface '", name, "' in the node's namespace"));
  }
  throw differs(cat("Interface ", name, " should not be in sandbox"),
                cat("prevResult has it in ", found->sandbox));
}

std::string no_veth(const Conf& conf) {
  return cat("CNI veth created for bridge ", conf.bridge, " was not found");
}

void check_vlans(const Context& context, const Link& outside) {
  const Conf& conf = context.conf;
  if (conf.vlan == 0 && conf.trunk.empty()) return;
  const auto seen = context.sides.host().vlans(outside);
  const auto has = [&seen](std::uint16_t id, bool untagged) {
    return std::ranges::any_of(seen, [&](const netlink::PortVlan& one) {
      return one.first <= id && id <= one.last && (!untagged || (one.pvid && one.untagged));
    });
  };
  if (conf.vlan != 0 && !has(conf.vlan, true)) {
    throw differs(cat("bridge port '", outside.name, "' is not in VLAN ", conf.vlan));
  }
  for (const auto& range : conf.trunk) {
    for (int id = range.first; id <= range.last; ++id) {
      if (has(static_cast<std::uint16_t>(id), false)) continue;
      throw differs(cat("bridge port '", outside.name, "' is not in trunk VLAN ", id));
    }
  }
}

// The pair whose other end puts the gateway of an access VLAN into the bridge.
void check_vlan_gateway(const Context& context, const Link& gateway, const Link& bridge) {
  if (!gateway.up) throw differs(cat("'", gateway.name, "' is down"));
  const auto port = vlan_gateway_port(context.sides.host(), gateway);
  if (!port) return;
  if (port->master == 0) {
    throw differs(cat("'", port->name, "', the other end of '", gateway.name,
                      "', is not a port of bridge '", bridge.name, "'"));
  }
  if (!port->up) throw differs(cat("bridge port '", port->name, "' is down"));
}

bool has_route(netlink::RouteSocket& host, const Link& device, const cni::Cidr& subnet) {
  const auto routes = host.routes(subnet.ip.family());
  return std::ranges::any_of(routes, [&](const netlink::LinkRoute& one) {
    return one.link == device.index && one.dst == subnet;
  });
}

// The kernel is asked for the route of a packet, because any rule or table may decide it. As its
// table has it: for the path of a packet the kernel compares the IPv6 addresses of all links.
// Where two bridges have one subnet, which ADD allows as the reference plugin does, the route of
// the first one decides. The pods of the second have their own beside it.
void check_route(const Context& context, const Link& device, const cni::Address& address) {
  netlink::RouteSocket& host = context.sides.host();
  const cni::Ip& pod = address.cidr.ip;
  const auto found = host.match(pod);
  const bool is_local = found && found->local;
  if (found && found->route.link == device.index) return;
  if (found && !is_local && has_route(host, device, address.cidr.network())) return;
  const auto other = found ? host.find(found->route.link) : std::nullopt;
  throw differs(cat("the node has no route to ", pod.str(), " on '", device.name, "'"),
                is_local ? "the node itself has the address"
                : other  ? cat("the node routes it to '", other->name, "'")
                         : "");
}

}  // namespace

Link check_bridge(const Context& context, const cni::Result& result) {
  const Conf& conf = context.conf;
  const auto wanted = node_entry(result, conf.bridge, "Interface name missing ");
  const auto bridge = context.sides.host().find(conf.bridge);
  if (!bridge) throw differs(cat("Interface name ", conf.bridge, " not found"));
  if (bridge->kind != "bridge") {
    throw differs(cat("Interface ", conf.bridge, " does not have link type of bridge"),
                  cat("it is of kind '", bridge->kind, "'"));
  }
  require_usable(*bridge, conf);
  if (!plugins::has_mac_of(wanted, *bridge)) {
    throw differs(cat("Bridge interface ", conf.bridge, " Mac doesn't match: ", wanted.mac),
                  cat("it has ", bridge->mac.str()));
  }
  if (carries_gateway(conf) && bridge->mac.is_zero()) {
    throw differs(cat("bridge '", conf.bridge, "' has no MAC address"));
  }
  if (!bridge->up) throw differs(cat("bridge '", conf.bridge, "' is down"));
  if (conf.promisc_mode && !bridge->promiscuous) {
    throw differs(cat("Bridge interface ", conf.bridge,
                      " configured Promisc Mode true doesn't match current state: false "));
  }
  return *bridge;
}

Link find_outside(const Context& context, const Link& inside) {
  const auto outside = plugins::host_veth_of(context.sides, inside);
  if (!outside) {
    throw differs(no_veth(context.conf));
  }
  return *outside;
}

// A port of the bridge with the flags of the config.
void check_port(const Context& context, const cni::Result& result, const Port& port,
                const Link& bridge) {
  const Link& outside = port.outside;
  const auto wanted = node_entry(result, outside.name, no_veth(context.conf));
  if (!plugins::has_mac_of(wanted, outside)) {
    throw differs(cat("Interface ", outside.name, " Mac doesn't match: ", wanted.mac, " not found"),
                  cat("it has ", outside.mac.str()));
  }
  if (outside.master != bridge.index) {
    throw differs(no_veth(context.conf),
                  cat("'", outside.name, "' is not a port of bridge '", bridge.name, "'"));
  }
  if (!outside.up) throw differs(cat("bridge port '", outside.name, "' is down"));
  if (outside.hairpin != context.conf.hairpin_mode) {
    throw differs(cat("hairpin mode of bridge port '", outside.name, "' is not as configured"));
  }
  if (outside.isolated != context.conf.port_isolation) {
    throw differs(cat("isolation of bridge port '", outside.name, "' is not as configured"));
  }
  check_vlans(context, outside);
}

Link find_inside(const Context& context, const cni::Result& result) {
  return plugins::find_interface(context.sides, result,
                                 {.kind = "veth", .missing = "Interface name "});
}

void check_gateway(const Context& context, const cni::Result& result, const Link& bridge) {
  const Conf& conf = context.conf;
  if (!conf.is_gateway) return;
  Link device = bridge;
  if (conf.vlan != 0) {
    const auto gateway = context.sides.host().find(conf.vlan_gateway());
    if (!gateway) throw differs(cat("Interface name ", conf.vlan_gateway(), " not found"));
    check_vlan_gateway(context, *gateway, bridge);
    device = *gateway;
  }
  plugins::check_gateway_addresses(context.sides.host(), device, gateways_of(result));
  for (const cni::Address& address : result.ips) {
    if (!address.gateway) continue;
    plugins::check_forwarding(context.sides.host(), address.cidr.ip.family());
    // The routes of a link in a VRF are in a table that the node's own packets do not pass.
    if (is_elsewhere(address) || device.master == 0) {
      check_route(context, device, address);
    }
  }
}

void check_attachment(const Context& context, const cni::Result& result) {
  const Conf& conf = context.conf;
  const Link bridge = check_bridge(context, result);
  const Link inside = find_inside(context, result);
  if (!conf.disable_container_interface && !inside.up) {
    throw differs(cat("Interface ", inside.name, " is down"));
  }
  const Link outside = find_outside(context, inside);
  check_port(context, result, {outside, inside}, bridge);
  if (conf.mac_spoof_check) {
    check_macspoof(context.sides.request.container_id, context.sides.request.ifname, outside.name);
  }
  if (conf.ipam_type.empty()) return;
  plugins::check_interface({context.sides, inside}, result);
  check_gateway(context, result, bridge);
  if (!conf.ip_masq) return;
  plugins::check_masquerade(
      plugins::masquerade_of(context.sides.request, result, conf.ip_masq_except));
}

void require_node_support(const Conf& conf) {
  netlink::RouteSocket host;
  for (const char* kind : {"bridge", "veth"}) plugins::require_kind(host, kind);
  if (const auto bridge = host.find(conf.bridge)) {
    try {
      require_usable(*bridge, conf);
    } catch (const cni::Error& e) {
      throw cni::Error(cni::Code::kPluginUnavailable, e.what(), e.details());
    }
  }
}

}  // namespace bridge
